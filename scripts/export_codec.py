"""Export a SNAC checkpoint to the decoder that `snac_decoder` serves on OpenVINO or ONNX Runtime.

    python scripts/export_codec.py CHECKPOINT_FOLDER OUTPUT_FOLDER

CHECKPOINT_FOLDER holds SNAC's config.json and pytorch_model.bin (or model.safetensors). OUTPUT_FOLDER gets config.json and decoder.onnx,
the network of tiles (snac_codec.engines.network), noise tape inside: codes int32 [tiles, 3, latents + 2 reach], position int64 [tiles],
valid int64 [tiles, 2] in (snac_codec.tiles.TileInputs), audio float32 [tiles, samples] out. It is compared with torch before it is kept.
Needs torch and onnx (requirements/test.txt); the server needs neither.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "model_repository/snac_decoder/1"))

from snac_codec.config import CodecConfig, load_config
from snac_codec.engines import blank
from snac_codec.engines.network import TileNetwork, load_weights, tensors_of
from snac_codec.engines.onnxruntime import OnnxRuntimeEngine
from snac_codec.tiles import TileInputs

TOLERANCE = 1e-4
"""Largest difference of a sample from torch's, of full scale 1: a third of a 16-bit step would be 1e-5, float32 sums in another order make
up to 1e-5."""


def export(checkpoint: Path, out: Path) -> float:
    """Write OUTPUT_FOLDER and return the largest difference from torch. Raises ValueError for a checkpoint that does not fit, and where it
    is over TOLERANCE."""
    import onnx

    config = load_config(checkpoint)
    network = TileNetwork(config, load_weights(checkpoint)).eval()
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out) as folder:
        path = Path(folder) / "decoder.onnx"
        sample = random_tiles(config, rows=2, size=4)
        # The older exporter needs no further package; inference mode would freeze the sizes into the graph.
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(
                network, tuple(tensors_of(sample)), str(path),
                input_names=["codes", "position", "valid"], output_names=["audio"], opset_version=17, dynamo=False,
                dynamic_axes={"codes": {0: "tiles", 2: "latents"}, "position": {0: "tiles"}, "valid": {0: "tiles"},
                              "audio": {0: "tiles", 1: "samples"}},
            )  # fmt: skip
        graph = onnx.load(str(path))
        graph.metadata_props.add(key="codebook_size", value=str(config.codebook_size))
        onnx.save(graph, str(path))
        shutil.copyfile(checkpoint / "config.json", Path(folder) / "config.json")
        difference = largest_difference(network, Path(folder))
        if difference > TOLERANCE:
            raise ValueError(f"the exported decoder differs from torch by {difference:.2e} of full scale, more than {TOLERANCE:.0e}")
        for name in ("config.json", "decoder.onnx"):
            (Path(folder) / name).replace(out / name)
    return difference


def random_tiles(config: CodecConfig, rows: int, size: int) -> TileInputs:
    """Tiles at random places, some of them at a border of their window."""
    rng, tiles = np.random.default_rng(rows * size), blank(config, rows, size)
    length = tiles.codes.shape[2]
    codes = rng.integers(0, config.codebook_size, tiles.codes.shape, dtype=np.int32)
    valid = np.stack([rng.integers(0, 10, rows), length - rng.integers(0, 10, rows)], 1)
    return TileInputs(codes, rng.integers(0, 1000, rows), valid)


def largest_difference(network: TileNetwork, folder: Path) -> float:
    worst, shapes = 0.0, ((1, 2), (3, 4), (2, 32), (1, 20))
    engine = OnnxRuntimeEngine(folder, tuple(size for _, size in shapes), threads=1, max_rows=1, device="cpu", precision="float32")
    for rows, size in shapes:
        tiles = random_tiles(engine.config, rows, size)
        with torch.no_grad():
            wanted = network(*tensors_of(tiles)).numpy()
        for row in range(rows):
            one = TileInputs(tiles.codes[row : row + 1], tiles.position[row : row + 1], tiles.valid[row : row + 1])
            worst = max(worst, float(np.abs(engine.decode(one)[0] - wanted[row]).max()))
    return worst


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("output", type=Path)
    args = parser.parse_args(arguments)
    print(f"exporting {args.checkpoint} and comparing with torch", file=sys.stderr)
    try:
        difference = export(args.checkpoint, args.output)
    except ValueError as error:
        sys.exit(f"export_codec: {error}")
    size = (args.output / "decoder.onnx").stat().st_size
    print(f"{args.output}: {size / 1e6:.1f} MB, largest difference from torch {difference:.1e} of full scale")


if __name__ == "__main__":
    main()
