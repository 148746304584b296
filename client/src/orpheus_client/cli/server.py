"""orpheus voices, orpheus health"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

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
        if arguments.speak:
            client.synthesize(PROBE)
    if arguments.json:
        print(json.dumps({"ok": health.ok, **asdict(health)}))
    else:
        states = {"server (live)": health.live, "server (ready)": health.ready, **health.models}
        for name, ready in states.items():
            print(f"{name:<16} {'yes' if ready else 'no'}")
        print(f"{'version':<16} {health.server_version}")
    return ExitCode.OK if health.ok else ExitCode.UNAVAILABLE
