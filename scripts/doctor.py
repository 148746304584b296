#!/usr/bin/env python3
"""Check an installation before it serves: packages, server, voice and codec folders, GPU, memory, shared memory, ports.

    make doctor
    python scripts/doctor.py --lm-engine tensorrt_llm --voice weights/orpheus-3b-fp8 --codec weights/snac --codec-engine torch
    --codec-device cuda

The environment variables of the server (ORPHEUS_LM_FOLDER, SNAC_ENGINE, ...) are the defaults. Exit status 1 where something fails.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "model_repository/orpheus_lm/1"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "model_repository/snac_decoder/1"))

from doctoring.checks import Plan, judge
from doctoring.facts import gather

REPOSITORY = Path(__file__).resolve().parents[1] / "model_repository"
MARKS = {"ok": "ok  ", "warn": "warn", "fail": "FAIL"}


def main(arguments: Sequence[str] | None = None, environment: Mapping[str, str] = os.environ) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    setting = environment.get
    parser.add_argument("--voice", type=Path, default=_folder(setting("ORPHEUS_LM_FOLDER", "pocket"), "orpheus_lm"))
    parser.add_argument("--codec", type=Path, default=_folder(setting("SNAC_FOLDER", "pocket"), "snac_decoder"))
    parser.add_argument("--lm-engine", default=setting("ORPHEUS_LM_ENGINE", "openvino"))
    parser.add_argument("--codec-engine", choices=["openvino", "onnxruntime", "torch"], default=setting("SNAC_ENGINE", "openvino"))
    parser.add_argument("--codec-device", choices=["cpu", "cuda", "tensorrt"], default=setting("SNAC_DEVICE", "cpu"))
    parser.add_argument("--max-streams", type=int, default=int(setting("ORPHEUS_LM_MAX_STREAMS", "32")))
    parser.add_argument("--segment-s", type=float, default=15.0, help="longest segment counted on, for the key-value cache")
    parser.add_argument("--ports", type=int, nargs="*", default=[8001, 8002])
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(arguments)
    plan = Plan(args.lm_engine, args.codec_engine, args.codec_device, args.max_streams, args.segment_s)
    verdicts = judge(gather(args.voice, args.codec, args.ports), plan)
    if args.json:
        print(json.dumps([asdict(verdict) for verdict in verdicts], indent=2))
    else:
        for verdict in verdicts:
            print(f"{MARKS[verdict.level]}  {verdict.check:22} {verdict.text}")
    return int(any(verdict.level == "fail" for verdict in verdicts))


def _folder(setting: str, model: str) -> Path:
    """As the model reads it: relative to its version folder."""
    return REPOSITORY / model / "1" / setting


if __name__ == "__main__":
    sys.exit(main())
