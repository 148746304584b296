"""Weights to go on training from, out of the decoder that the server ships.

    python -m pocket_voice.recover ../model_repository/snac_decoder/1/pocket/decoder.onnx --base CODEC --out work/codec

CODEC is the folder (snac/, encoder.safetensors) of a codec with the same codes: its quantizer and encoder are taken over, the decoder's
weights come from the ONNX file of scripts/export_codec.py. Only the split into direction and length of weight normalisation is not in
that file; it is made anew, which changes no sample.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from snac import SNAC

from pocket_voice.codec import levels_of, load_codec, save_codec

Tensors = dict[str, torch.Tensor]


def tensors_of(path: Path) -> Tensors:
    """The weights of an exported decoder, by the names of snac_codec.engines.network.TileNetwork."""
    return {tensor.name: torch.from_numpy(np.array(numpy_helper.to_array(tensor))) for tensor in onnx.load(str(path)).graph.initializer}


def gathered(weight: torch.Tensor, stride: int) -> torch.Tensor:
    """The weight of a transposed convolution [in, out, 2 stride] from that of the convolution [stride out, in, 2] that replaces it."""
    many, n_in, _ = weight.shape
    return weight.reshape(stride, many // stride, n_in, 2).permute(2, 1, 3, 0).flip(2).reshape(n_in, many // stride, 2 * stride)


def set_layer(layer: Any, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
    layer.weight = weight  # through weight normalisation
    if bias is not None:
        layer.bias.data.copy_(bias)


def set_decoder(model: SNAC, tensors: Tensors) -> None:
    """Raises ValueError where the file belongs to other codes."""
    books = torch.cat([level.codebook.weight for level in levels_of(model)])
    if not torch.equal(books.detach(), tensors["quantizer.codebooks"]):
        raise ValueError("the decoder belongs to a codec with other codebooks")
    layers = list(model.decoder.model)
    first, second, *blocks, snake, end, _ = cast("list[Any]", layers)
    for i, layer in enumerate((first, second)):
        set_layer(layer, tensors[f"start.{i}.weight"], tensors[f"start.{i}.bias"])
    for i, block in enumerate(blocks):
        name = f"blocks.{i}"
        block_snake, spread, noise, *units = block.block
        block_snake.alpha.data.copy_(tensors[f"{name}.snake.alpha"])
        stride = spread.stride[0]
        bias = tensors[f"{name}.spread.convolution.bias"]
        set_layer(spread, gathered(tensors[f"{name}.spread.convolution.weight"], stride), bias[: len(bias) // stride])
        set_layer(noise.linear, tensors[f"{name}.noise.weight"], None)
        for j, unit in enumerate(units):
            inside = f"{name}.units.{j}"
            first_snake, wide, second_snake, pointwise = unit.block
            first_snake.alpha.data.copy_(tensors[f"{inside}.first_snake.alpha"])
            second_snake.alpha.data.copy_(tensors[f"{inside}.second_snake.alpha"])
            set_layer(wide, tensors[f"{inside}.wide.weight"], tensors[f"{inside}.wide.bias"])
            set_layer(pointwise, tensors[f"{inside}.pointwise.weight"], tensors[f"{inside}.pointwise.bias"])
    snake.alpha.data.copy_(tensors["snake.alpha"])
    set_layer(end, tensors["end.convolution.weight"].transpose(0, 1), tensors["end.bias"])


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("decoder", type=Path, help="decoder.onnx")
    parser.add_argument("--base", type=Path, required=True, help="folder of a codec with the same codes")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    model, encoder = load_codec(args.base)
    set_decoder(model, tensors_of(args.decoder))
    save_codec(args.out, model, encoder)
    print(f"{args.out}: go on with train_codec --start {args.out} --freeze-codes")


if __name__ == "__main__":
    main()
