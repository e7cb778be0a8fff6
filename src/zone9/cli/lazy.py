"""Commands that are imported when they are called: `zone9 --help` must not pay for a database driver.

The group's help is told from a table of one-line sentences; everything else sees the real commands.
"""

import importlib
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any

import typer
import typer.main
from typer.core import TyperCommand, TyperGroup


@dataclass(frozen=True, slots=True)
class Later:
    """Is a command that is not there yet: its help, and where it comes from (`module:name`, or a call)."""

    help: str
    source: str | Callable[[], typer.Typer]

    def load(self, name: str) -> Any:
        """Imports the command. A plain function becomes a command of this name."""
        if callable(self.source):
            return typer.main.get_group(self.source())
        module, _, attribute = self.source.partition(":")
        found = getattr(importlib.import_module(module), attribute)
        if isinstance(found, typer.Typer):
            return typer.main.get_group(found)
        alone = typer.Typer(add_completion=False)
        alone.command(name)(found)
        return typer.main.get_command(alone)


@dataclass
class Table(MutableMapping[str, Any]):
    """Is the group's mapping of commands; looking one up imports it."""

    later: Mapping[str, Later]
    loaded: dict[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        if name not in self.loaded:
            command = self.later[name].load(name)
            command.name = name
            self.loaded[name] = command
        return self.loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in self.later

    def __setitem__(self, name: str, command: Any) -> None:
        self.loaded[name] = command

    def __delitem__(self, name: str) -> None:
        del self.loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.later)

    def __len__(self) -> int:
        return len(self.later)


def group(later: Mapping[str, Later]) -> type[TyperGroup]:
    """Returns the class of a group that has these commands."""

    class LazyGroup(TyperGroup):
        def __init__(self, **attributes: Any) -> None:
            super().__init__(**attributes)
            self.commands = Table(later)
            self._telling = False

        def list_commands(self, ctx: Any) -> list[str]:
            return list(later)

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            if self._telling:
                return TyperCommand(cmd_name, help=later[cmd_name].help)
            return self.commands.get(cmd_name)

        def format_help(self, ctx: Any, formatter: Any) -> None:
            self._telling = True
            try:
                super().format_help(ctx, formatter)
            finally:
                self._telling = False

    return LazyGroup
