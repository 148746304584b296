"""The command line's grammar."""

from __future__ import annotations

import argparse
import os
from typing import Any, NoReturn

from ..connection import DEFAULT_URL, Tls
from ..speech import SpeechOptions
from ..timeouts import Timeouts
from ..version import VERSION
from .exit_codes import MEANINGS, ExitCode

EXAMPLES = """examples:
  orpheus say "Good morning." --out morning.wav
  fortune | orpheus say - --voice tara --out - | aplay
  orpheus say "Good morning." --raw --out - | ffplay -nodisp -autoexit -f s16le -ar 24000 -ch_layout mono -
  orpheus bench-lite --streams 32 --concurrency 8 --json

environment:
  ORPHEUS_URL    host:port of the server's gRPC endpoint, in place of --url
  ORPHEUS_TOKEN  sent as "authorization: Bearer ..." (an argument would be seen by every user of the machine)
"""
OPTION_TYPES: dict[str, tuple[type, str]] = {
    "voice": (str, "one of `orpheus voices`"),
    "temperature": (float, "0 (greedy) to 2"),
    "top_p": (float, "above 0, at most 1"),
    "top_k": (int, "0 for off"),
    "repetition_penalty": (float, "1 for none"),
    "max_tokens": (int, "bound per segment of the text; 7 tokens are 85.33 ms"),
    "seed": (int, "the same seed gives the same audio on a server without other work"),
    "chunk_frames": (int, "frames of 85.33 ms per chunk; 0 adapts to the listener's buffer"),
}
TIMEOUT_FLAGS = {
    "connect_s": ("--connect-timeout", "to connect"),
    "first_audio_s": ("--first-audio-timeout", "until the first sample"),
    "between_chunks_s": ("--chunk-timeout", "from one chunk to the next"),
    "total_s": ("--total-timeout", "for the whole utterance"),
}


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """argparse's own message begins with the whole usage, which hides the reason."""
        self.exit(ExitCode.USAGE, f"{self.prog}: {message}\nTry: {self.prog} --help\n")


def build_parser() -> argparse.ArgumentParser:
    codes = "\n".join(f"  {code.value:<4} {meaning}" for code, meaning in MEANINGS.items())
    parser = Parser(
        prog="orpheus",
        description="Streamed speech from a Triton server.",
        epilog=f"{EXAMPLES}\nexit codes:\n{codes}\n",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=VERSION)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    server, speech = _server_arguments(), _speech_arguments()

    say = commands.add_parser("say", help="speak a text into a file or a pipe", parents=[speech, server])
    say.add_argument("text", nargs="+", metavar="TEXT", help="the text; - reads it from standard input (UTF-8)")
    say.add_argument("-o", "--out", default="speech.wav", metavar="FILE", help="- is standard output (default: %(default)s)")
    say.add_argument("--raw", action="store_true", help="bare little-endian samples instead of a WAV")
    say.add_argument("--float", action="store_true", help="32-bit float samples instead of 16-bit integers")
    say.add_argument("-q", "--quiet", action="store_true", help="no progress and no summary")
    say.add_argument("--json", action="store_true", help="the summary as JSON; on standard error, if the audio goes to standard output")

    voices = commands.add_parser("voices", help="list the server's voices", parents=[server])
    voices.add_argument("--json", action="store_true", help="the server's description of itself as JSON")

    health = commands.add_parser("health", help="say whether the server can serve", parents=[server])
    health.add_argument("--speak", action="store_true", help="also speak one word: notices what Triton's own readiness does not")
    health.add_argument("--json", action="store_true", help="as JSON")

    drain = commands.add_parser("drain", help="wait until the server, which gets no new streams any more, has ended those that it has")
    drain.add_argument("--metrics-url", default="http://localhost:8002/metrics", help="Triton's metrics page (default: %(default)s)")
    drain.add_argument("--pause-s", type=float, default=0.0, help="first wait so long, for the balancer to forget the server")
    drain.add_argument("--timeout-s", type=float, default=60.0, help="then wait so long at most (default: %(default)s)")
    drain.set_defaults(json=False)

    bench = commands.add_parser("bench-lite", help="speak many utterances at once and report how it went", parents=[speech, server])
    bench.add_argument("-n", "--streams", type=_positive, default=16, help="utterances in all (default: %(default)s)")
    bench.add_argument("-c", "--concurrency", type=_positive, default=4, help="at a time (default: %(default)s)")
    bench.add_argument("--warmup", type=_count, metavar="N", help="utterances before the measured ones (default: as many as run at a time)")
    bench.add_argument("--text", action="append", metavar="TEXT", help="may be given several times (default: built-in sentences)")
    bench.add_argument("--json", action="store_true", help="the report as JSON, with every run")
    return parser


def _speech_arguments() -> Parser:
    parser = Parser(add_help=False)
    group = parser.add_argument_group("speech (defaults: the server's)")
    for name, (kind, text) in OPTION_TYPES.items():
        group.add_argument(f"--{name.replace('_', '-')}", type=kind, help=text, metavar={str: "NAME", int: "N", float: "X"}[kind])
    return parser


def _server_arguments() -> Parser:
    parser = Parser(add_help=False)
    group = parser.add_argument_group("server")
    url = os.environ.get("ORPHEUS_URL") or DEFAULT_URL
    group.add_argument("--url", default=url, metavar="HOST:PORT", help="gRPC endpoint (default: ORPHEUS_URL, else localhost:8001)")
    group.add_argument("--tls", action="store_true", help="encrypt, trusting the system's authorities")
    group.add_argument("--tls-ca", metavar="FILE", help="PEM file of the authorities to trust (implies --tls)")
    group.add_argument("--tls-cert", metavar="FILE", help="PEM file of the client's certificate chain, with --tls-key (implies --tls)")
    group.add_argument("--tls-key", metavar="FILE", help="PEM file of the client's key")
    group.add_argument("--header", action="append", type=_header, default=[], metavar="NAME=VALUE", help="send with every call")
    group.add_argument("--retries", type=_count, default=0, metavar="N", help="try again before the first audio (default: %(default)s)")
    defaults = Timeouts()
    for name, (flag, text) in TIMEOUT_FLAGS.items():
        value = getattr(defaults, name)
        shown = "none" if value is None else f"{value:g}"
        group.add_argument(flag, dest=name, type=_seconds, default=value, metavar="S", help=f"seconds {text} (default: {shown})")
    return parser


def client_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Keyword arguments for either client."""
    headers = dict(arguments.header)
    token = os.environ.get("ORPHEUS_TOKEN")
    if token:
        headers.setdefault("authorization", f"Bearer {token}")
    tls = Tls(arguments.tls_ca, arguments.tls_key, arguments.tls_cert)
    return {
        "url": arguments.url,
        "timeouts": Timeouts(**{name: getattr(arguments, name) for name in TIMEOUT_FLAGS}),
        "retries": arguments.retries,
        "tls": tls if arguments.tls or arguments.tls_ca or arguments.tls_cert else False,
        "headers": headers,
    }


def speech_options(arguments: argparse.Namespace) -> SpeechOptions:
    options: Any = {name: getattr(arguments, name) for name in OPTION_TYPES}
    return options


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return number


def _count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError("must be 0 or more")
    return number


def _seconds(text: str) -> float:
    number = float(text)
    if not number > 0:
        raise argparse.ArgumentTypeError("must be above 0")
    return number


def _header(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not name or not sign:
        raise argparse.ArgumentTypeError("must be NAME=VALUE")
    return name.lower(), value
