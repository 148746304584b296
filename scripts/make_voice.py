"""Make a voice folder that the server loads from a Hugging Face checkpoint in Orpheus's format.

    python scripts/make_voice.py CHECKPOINT OUT --voice VOICE_JSON --precision int4

CHECKPOINT holds config.json, tokenizer.json and safetensors of a Llama; VOICE_JSON is the voice.json that describes it: control ids,
prompt, voices (model_repository/orpheus_lm/1/speech_lm/voice.py, examples in presets/). OUT, which must not exist, gets voice.json, the
tokenizer and the model as OpenVINO IR; ORPHEUS_LM_FOLDER names it to the server. All is checked against each other first, and OUT
appears whole or not at all. Runs in the server's environment, without torch. Memory and time: docs/weights.md.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "model_repository/orpheus_lm/1"))

from export_lm import export
from llama_ir.config import LlamaConfig, load_config
from llama_ir.size import exported_bytes
from llama_ir.weights import PRECISIONS
from speech_lm.frontends import load_frontend
from speech_lm.voice import load_voice
from voice_folder.fit import misfits


class VoiceError(ValueError):
    """The message says what does not fit, and what to do."""


def make_voice(checkpoint: Path, out: Path, voice_json: Path, precision: str) -> None:
    """Raises VoiceError, or ValueError for a checkpoint that is no plain Llama; nothing is left behind then."""
    if out.exists():
        raise VoiceError(f"{out} exists; remove it or name another folder")
    for file in (checkpoint / "config.json", voice_json):
        if not file.is_file():
            raise VoiceError(f"{file} is missing")
    config = load_config(checkpoint)
    out.parent.mkdir(parents=True, exist_ok=True)
    needed, free = exported_bytes(config, precision), shutil.disk_usage(out.parent).free
    if needed > free:
        raise VoiceError(f"{out.parent} has {free / 1e9:.1f} GB free, and the model in {precision} takes {needed / 1e9:.1f} GB")
    draft = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
    try:
        _put_description(checkpoint, draft, voice_json, config)
        export(checkpoint, draft, precision)
        draft.chmod(0o755)
        draft.rename(out)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _put_description(checkpoint: Path, draft: Path, voice_json: Path, config: LlamaConfig) -> None:
    shutil.copyfile(voice_json, draft / "voice.json")
    voice = load_voice(draft)
    beside = [folder / voice.frontend.file for folder in (checkpoint, voice_json.parent)]
    source = next((file for file in beside if file.is_file()), None)
    if source is None:
        raise VoiceError(f"{voice_json} names {voice.frontend.file}, which is neither in {checkpoint} nor beside it")
    shutil.copyfile(source, draft / voice.frontend.file)
    wrong = misfits(voice, config.vocab_size, load_frontend(voice))
    if wrong:
        raise VoiceError("\n  ".join([f"{voice_json} does not describe {checkpoint}:", *wrong]))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--voice", type=Path, required=True, metavar="VOICE_JSON", help="the voice.json that describes the checkpoint")
    parser.add_argument("--precision", choices=PRECISIONS, default="int8", help="of the weights (default: %(default)s)")
    given = parser.parse_args(arguments)
    try:
        make_voice(given.checkpoint, given.out, given.voice, given.precision)
    except (ValueError, FileNotFoundError) as error:
        print(f"make_voice: {error}", file=sys.stderr)
        return 1
    size = sum(file.stat().st_size for file in given.out.iterdir())
    print(f"{given.out}: {size / 1e9:.2f} GB; ORPHEUS_LM_FOLDER={given.out.resolve()} serves it")
    return 0


if __name__ == "__main__":
    sys.exit(main())
