"""This package's Lua scripts."""

from __future__ import annotations

from pathlib import Path

from app.lua import ScriptBook

SCRIPTS = ScriptBook(Path(__file__).parent / "lua")
