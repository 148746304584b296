"""The ensemble: every tensor is wired, to one of the same type and shape."""

from __future__ import annotations

from typing import Any

import pytest
from support.model_config import TensorType, inputs, outputs, parse_config

ENSEMBLE = parse_config("orpheus_tts")
STEPS = list(ENSEMBLE.ensemble_scheduling.step)


def test_it_joins_language_model_and_codec() -> None:
    assert [step.model_name for step in STEPS] == ["orpheus_lm", "snac_decoder"]
    assert ENSEMBLE.platform == "ensemble"
    assert all(step.model_version == -1 for step in STEPS)


@pytest.mark.parametrize("step", STEPS, ids=[step.model_name for step in STEPS])
def test_a_step_gets_what_it_needs_and_nothing_unknown(step: Any) -> None:
    wanted = inputs(parse_config(step.model_name))
    assert set(step.input_map) <= set(wanted)
    assert {name for name, tensor in wanted.items() if not tensor.optional} <= set(step.input_map)
    assert set(step.output_map) <= set(outputs(parse_config(step.model_name)))


def test_every_input_of_the_ensemble_is_used_and_every_output_made() -> None:
    read = {name for step in STEPS for name in step.input_map.values()}
    written = [name for step in STEPS for name in step.output_map.values()]
    assert set(inputs(ENSEMBLE)) <= read
    assert set(outputs(ENSEMBLE)) <= set(written)
    assert len(written) == len(set(written)), "two steps write one tensor"
    assert read <= set(written) | set(inputs(ENSEMBLE)), "a step waits for a tensor that nobody writes"
    assert set(written) <= read | set(outputs(ENSEMBLE)), "a tensor is written and never read"


def test_types_and_shapes_agree_along_every_wire() -> None:
    wires: dict[str, TensorType] = {name: _wire(tensor) for name, tensor in inputs(ENSEMBLE).items()}
    for step in STEPS:
        config = parse_config(step.model_name)
        for name, wire in step.input_map.items():
            assert _wire(inputs(config)[name]) == wires[wire], f"{step.model_name} {name}"
        wires |= {wire: _wire(outputs(config)[name]) for name, wire in step.output_map.items()}
    assert {name: wires[name] for name in outputs(ENSEMBLE)} == {name: _wire(tensor) for name, tensor in outputs(ENSEMBLE).items()}


def test_optional_inputs_stay_optional() -> None:
    language_model = inputs(parse_config("orpheus_lm"))
    assert {name: tensor.optional for name, tensor in inputs(ENSEMBLE).items()} == {
        name: language_model[wire].optional for name, wire in STEPS[0].input_map.items()
    }


def test_no_step_mixes_the_callers_tensors_with_those_of_a_decoupled_step() -> None:
    """Triton refuses that at load."""
    assert not set(STEPS[1].input_map.values()) & set(inputs(ENSEMBLE))


def _wire(tensor: TensorType) -> TensorType:
    return TensorType(tensor.data_type, tensor.dims)
