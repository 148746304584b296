"""Export a Llama checkpoint to OpenVINO IR that OpenVINO GenAI's continuous batching serves.

    python scripts/export_lm.py CHECKPOINT OUT --precision int4

CHECKPOINT is a Hugging Face folder: config.json and model.safetensors, or its shards and their index. Written: OUT/openvino_model.xml and
.bin, and a copy of config.json, where the server reads how long a context the model was trained for. Needs openvino and numpy only, and
as much memory as the exported file is large.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from llama_ir.checkpoint import Checkpoint
from llama_ir.config import load_config
from llama_ir.graph import build_model
from llama_ir.weights import PRECISIONS, stored_as
from openvino import save_model


def export(checkpoint: Path, out: Path, precision: str) -> Path:
    """-> the path of the .xml. Raises ValueError for a model that is no plain Llama or lacks a tensor."""
    model = build_model(load_config(checkpoint), stored_as(precision, Checkpoint(checkpoint)))
    out.mkdir(parents=True, exist_ok=True)
    path = out / "openvino_model.xml"
    save_model(model, path, compress_to_fp16=False)
    shutil.copyfile(checkpoint / "config.json", out / "config.json")
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--precision", choices=PRECISIONS, default="f16")
    args = parser.parse_args()
    path = export(args.checkpoint, args.out, args.precision)
    size = sum(p.stat().st_size for p in (path, path.with_suffix(".bin")))
    print(f"{path}: {size / 1e6:.1f} MB with its weights")


if __name__ == "__main__":
    main()
