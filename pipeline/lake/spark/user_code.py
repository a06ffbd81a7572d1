"""The user's own modules beside the settings file: a callable's module and all that it imports from there, read
once and kept unchanged.

    headrace.yaml   my_parsers.py ─► helpers.py      read once for each run: digest ─► the ledger
                                                                             ├─► imported in this process, from these
                                                                             very sources └─► a zip ─► Spark's workers
                                                                             import from it

The folder isn't put on Python's path: only these modules are found there, and only by the code that a run has
read. So a process that lives long uses a changed module from its next run on.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib import import_module
from importlib.abc import ExecutionLoader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import decode_source, spec_from_loader
from io import BytesIO
from pathlib import Path, PurePosixPath
from threading import RLock
from types import ModuleType
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from headrace.pipeline.errors import BadSetting
from headrace.pipeline.lake.spark.engine_zip import private_folder

_ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The oldest time that a zip can hold."""


@dataclass(frozen=True, slots=True)
class UserCode:
    folder: Path
    files: Mapping[str, bytes]
    """Path below the folder, with slashes -> source."""

    @property
    def digest(self) -> str:
        return _digest(self.files)

    @property
    def modules(self) -> Mapping[str, str]:
        """The modules and packages in the folder, by name, each with the digest of its sources."""
        by_module: dict[str, dict[str, bytes]] = {}
        for path, source in self.files.items():
            by_module.setdefault(path.partition("/")[0].removesuffix(".py"), {})[path] = source
        return {name: _digest(files) for name, files in by_module.items()}

    def zipped(self) -> Path:
        """The zip file for Spark's workers. Its name has a digest of its content."""
        path = private_folder("ship") / f"headrace-code-{self.digest}.zip"
        if not path.exists():
            # Written under another name first: a process that finds the zip never finds half of it.
            begun = path.with_suffix(f".{os.getpid()}")
            begun.write_bytes(self._zip_bytes())
            begun.replace(path)
        return path

    def _zip_bytes(self) -> bytes:
        # Python takes a folder in a zip for a package only if it has an __init__.py.
        folders = {parent for path in self.files for parent in PurePosixPath(path).parents if parent.name}
        inits = {f"{folder}/__init__.py": b"" for folder in folders}
        out = BytesIO()
        with ZipFile(out, "w", ZIP_DEFLATED) as archive:
            for path, source in sorted({**inits, **self.files}.items()):
                name = ZipInfo(path, _ZIP_EPOCH)
                name.compress_type = ZIP_DEFLATED
                archive.writestr(name, source)
        return out.getvalue()


def _digest(files: Mapping[str, bytes]) -> str:
    out = sha256()
    # In one order on every host, so that the same code has the same name.
    for path, source in sorted(files.items()):
        out.update(f"{path}\0{sha256(source).hexdigest()}\n".encode())
    return out.hexdigest()[:16]


# --- reading ----------------------------------------------------------------------------------------------------


def code_beside(folder: Path, module: str) -> UserCode | None:
    """The module with all that it imports from the folder, as it is now; None where the folder has no such module.
    Raises BadSetting for a module that has the name of another one that Python finds."""
    files: dict[str, bytes] = {}
    waiting, visited = [module.partition(".")[0]], set[str]()
    while waiting:
        name = waiting.pop()
        sources = {} if name in visited else _sources_of(folder, name)
        visited.add(name)
        if sources:
            _check_name(folder, name)
            files |= sources
            waiting += [name for source in sources.values() for name in _imported(source)]
    return UserCode(folder, files) if files else None


def _sources_of(folder: Path, name: str) -> dict[str, bytes]:
    """The sources of a module or a package in the folder."""
    package, single = folder / name, folder / f"{name}.py"
    # As Python itself decides: a package goes before a module of the same name.
    if not (package / "__init__.py").exists() and single.is_file():
        return {single.name: single.read_bytes()}
    if not package.is_dir():
        return {}
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(package.rglob("*.py"))}


def _imported(source: bytes) -> Iterator[str]:
    """The first names of what a source imports, also within its functions."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        # The import of the module tells what is wrong.
        return
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                yield from (alias.name.partition(".")[0] for alias in node.names)
            case ast.ImportFrom(module=str() as module, level=0):
                yield module.partition(".")[0]


def _check_name(folder: Path, name: str) -> None:
    """Refuse a module that hides another one, or that another one would hide on a worker."""
    hidden = "Python's own" if name in sys.stdlib_module_names else _other_place(folder, name)
    if hidden:
        raise BadSetting(
            f"the module {name} in {folder}, which a callable uses, has the name of another one ({hidden}). Nothing was parsed; give the module in the "
            "folder another name"
        )


def _other_place(folder: Path, name: str) -> str | None:
    """Where Python finds this name outside of the folder."""
    loaded = sys.modules.get(name)
    file = getattr(loaded, "__file__", None)
    if loaded is not None and not isinstance(getattr(loaded, "__loader__", None), _Loader):
        # A module of this very folder may be loaded already, and hides nothing.
        if file is None or not Path(file).resolve().is_relative_to(folder):
            return str(file or "a module of Python")
        return None
    path = [entry for entry in sys.path if Path(entry or ".").resolve() != folder]
    spec = PathFinder.find_spec(name, path)
    # A folder without an __init__.py is a package for Python, too, and hides nothing.
    return None if spec is None or spec.origin is None else spec.origin


# --- importing --------------------------------------------------------------------------------------------------


def imported(code: UserCode, module: str) -> ModuleType:
    """The module as `code` has it. Modules of another version or folder that were imported before are removed first."""
    with _finder.lock:
        _finder.use(code)
        return import_module(module)


class _Loader(ExecutionLoader):
    """Loads from the sources that were read, and keeps no compiled form: Python tells an old one from a new one by the
    second only."""

    def __init__(self, code: UserCode, path: str) -> None:
        self._code = code
        self._path = path

    def is_package(self, fullname: str) -> bool:
        return self._path.endswith("/__init__.py")

    def get_filename(self, fullname: str) -> str:
        return str(self._code.folder / self._path)

    def get_source(self, fullname: str) -> str:
        return decode_source(self._code.files[self._path])


class _Finder(MetaPathFinder):
    def __init__(self) -> None:
        self.lock = RLock()
        self._codes: dict[str, tuple[UserCode, str]] = {}
        """The first name of a module -> the code that has it, and the digest of its sources."""

    def use(self, code: UserCode) -> None:
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)
        modules = code.modules
        loaded = {name: (user_code.folder, digest) for name, (user_code, digest) in self._codes.items()}
        if any(loaded.get(name) != (code.folder, digest) for name, digest in modules.items()):
            # All of them: one that didn't change may hold parts of one that did.
            for name in [name for name in sys.modules if name.partition(".")[0] in modules]:
                del sys.modules[name]
        self._codes |= {name: (code, digest) for name, digest in modules.items()}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        code = self._codes.get(fullname.partition(".")[0])
        if code is None:
            return None
        files, name = code[0].files, fullname.replace(".", "/")
        source = next((path for path in (f"{name}/__init__.py", f"{name}.py") if path in files), None)
        if source is not None:
            loader: Any = _Loader(code[0], source)
            spec = spec_from_loader(fullname, loader, origin=loader.get_filename(fullname))
            if spec is not None:
                spec.has_location = True
            return spec
        if not any(file.startswith(f"{name}/") for file in files):
            return None
        spec = ModuleSpec(fullname, None, is_package=True)
        spec.submodule_search_locations = [str(code[0].folder / name)]
        return spec


_finder = _Finder()
