"""orpheus voices, orpheus health"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from ..errors import Overloaded
from ..sync_client import Client
from .arguments import client_options
from .exit_codes import ExitCode

PROBE = "Yes."


def voices(arguments: argparse.Namespace) -> ExitCode:
    with Client(**client_options(arguments)) as client:
        description = client.describe()
    print(json.dumps(asdict(description)) if arguments.json else "\n".join(description.voices))
    return ExitCode.OK


def health(arguments: argparse.Namespace) -> ExitCode:
    with Client(**client_options(arguments)) as client:
        health = client.health()
        speech = _speak(client) if arguments.speak else {}
    if arguments.json:
        print(json.dumps({"ok": health.ok, **asdict(health), **speech}))
    else:
        states = {"server (live)": health.live, "server (ready)": health.ready, **health.models}
        for name, state in {**{name: "yes" if ready else "no" for name, ready in states.items()}, **speech}.items():
            print(f"{name:<16} {state}")
        print(f"{'version':<16} {health.server_version}")
    return ExitCode.OK if health.ok else ExitCode.UNAVAILABLE


def _speak(client: Client) -> dict[str, str]:
    """A full server is a healthy one: whoever restarts what is not healthy must leave it alone. Raises OrpheusError."""
    try:
        client.synthesize(PROBE)
    except Overloaded:
        return {"speaks": "busy"}
    return {"speaks": "yes"}
