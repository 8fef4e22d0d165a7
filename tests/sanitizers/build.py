"""Compiles the twin with gcc's sanitizers, from the sources and macros that pyproject.toml names.

CPython's own flags are left out, above all -fwrapv, which makes signed overflow defined and hides it from the
sanitizer, and -DNDEBUG, so that the assertions in Python's headers are checked, too.
"""

import shlex
import subprocess
import sysconfig
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".venv" / ".sanitized"
ENDING = sysconfig.get_config_var("EXT_SUFFIX")
TWIN_NAME = "staticfire.protocol._compiled"
TWIN, CANARY = FOLDER / f"_compiled{ENDING}", FOLDER / f"canary{ENDING}"
COMPILER = "gcc"
RUNTIMES = "libasan.so", "libubsan.so"
FLAGS = shlex.split(
    "-shared -fPIC -pthread -std=gnu11 -O1 -g -fno-omit-frame-pointer -fno-wrapv -Wall -Wextra -Werror"
    " -fsanitize=address,undefined -fno-sanitize-recover=all"
)


class BuildError(Exception):
    """The instrumented modules can't be built here; the text says what is missing."""


def build() -> list[Path]:
    """Compile twin and canary; return the sanitizers' runtime libraries. Raises: BuildError."""
    libraries = [_runtime(name) for name in RUNTIMES]
    FOLDER.mkdir(parents=True, exist_ok=True)
    [extension] = [
        one
        for one in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["ext-modules"]
        if one["name"] == TWIN_NAME
    ]
    macros = [f"-D{name}={value}" for name, value in extension["define-macros"]]
    _compile(TWIN, [*macros, *(str(ROOT / source) for source in extension["sources"])])
    _compile(CANARY, [str(Path(__file__).with_name("canary.c"))])
    return libraries


def _compile(module: Path, arguments: list[str]) -> None:
    include = sysconfig.get_path("include")
    _run([COMPILER, *FLAGS, f"-I{include}", *arguments, "-o", str(module)])


def _runtime(name: str) -> Path:
    """Return where a sanitizer's library is. gcc answers with the bare name if there is none."""
    path = Path(_run([COMPILER, f"-print-file-name={name}"]).strip())
    if not path.is_absolute():
        raise BuildError(f"gcc has no {name}: install its sanitizers (on Debian: apt-get install gcc)")
    return path.resolve()


def _run(command: list[str]) -> str:
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout
    except FileNotFoundError:
        raise BuildError(f"no {command[0]}: install it (on Debian: apt-get install gcc)") from None
    except subprocess.CalledProcessError as error:
        raise BuildError(f"{shlex.join(command)} failed:\n{error.stderr}") from None
