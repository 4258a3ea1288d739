"""The structure of the package: which modules may import which."""

import ast
import pathlib
import subprocess
import sys

import pytest

import sluice

_ROOT = pathlib.Path(sluice.__file__).resolve().parent

# The folders of the client. Each imports only the previous ones. The imitations
# of TensorFlow's environment come after all of them.
_CLIENT = ("framework", "ops", "client", "summary", "layers", "training",
           "functions", "data")
_SURROUNDINGS = ("compat", "contrib")
# The command `python -m sluice.run`, whose code is in compat.
_COMMAND = "sluice.run"


def _modules():
    """Returns the files of the package's modules by name."""
    found = {}
    for path in sorted(_ROOT.rglob("*.py")):
        parts = path.relative_to(_ROOT.parent).with_suffix("").parts
        if parts[-1] == "__init__":
            parts = parts[:-1]
        found[".".join(parts)] = path
    return found


_MODULES = _modules()


def _imports(module, path):
    """Yields (module, line) of each import, including those in functions."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name in _MODULES:
                    yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}:{node.lineno}: a relative import"
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                if name == "sluice._core":
                    continue
                for imported in (name, node.module):
                    if imported in _MODULES:
                        yield imported, node.lineno
                        break


@pytest.fixture(scope="module")
def imports():
    """Returns {module: {imported module: line}}."""
    return {module: dict(_imports(module, path))
            for module, path in _MODULES.items()}


def _folder(module):
    """Returns the folder of a module, such as "ops", or ""."""
    path = _MODULES[module].relative_to(_ROOT)
    return path.parts[0] if len(path.parts) > 1 else ""


def _circle(imports):
    """Returns the modules of an import cycle, or None."""
    done, path = set(), []

    def visit(module):
        if module in path:
            return path[path.index(module):] + [module]
        if module in done:
            return None
        path.append(module)
        for imported in imports[module]:
            found = visit(imported)
            if found:
                return found
        path.pop()
        done.add(module)
        return None

    return next(filter(None, map(visit, imports)), None)


def test_client_does_not_import_its_surroundings(imports):
    wrong = [f"{module}:{line} imports {name}"
             for module, found in imports.items()
             if _folder(module) not in _SURROUNDINGS and module != _COMMAND
             for name, line in found.items()
             if _folder(name) in _SURROUNDINGS or name == _COMMAND]
    assert not wrong, "\n".join(wrong)


def test_imports_have_no_cycles(imports):
    circle = _circle(imports)
    assert circle is None, "an import circle: " + " -> ".join(circle)


def test_cycles_are_detected():
    assert _circle({"a": ["b"], "b": ["c", "d"], "c": [], "d": ["b"]}) == [
        "b", "d", "b"]
    assert _circle({"a": ["b", "c"], "b": ["c"], "c": []}) is None


def test_folders_import_only_lower_folders(imports):
    order = {name: i for i, name in enumerate(_CLIENT + _SURROUNDINGS)}
    assert set(order) | {""} == set(map(_folder, _MODULES))
    wrong = [f"{module}:{line} imports {name}"
             for module, found in imports.items() if _folder(module)
             for name, line in found.items()
             if order.get(_folder(name), -1) > order[_folder(module)]]
    assert not wrong, "\n".join(wrong)


def test_the_client_loads_without_its_surroundings():
    """This must hold although names.py refers to them."""
    loaded = subprocess.run(
        [sys.executable, "-c", "import sluice, sys; "
         "print(*(m for m in sys.modules if m.startswith('sluice')))"],
        check=True, capture_output=True, text=True).stdout.split()
    assert "sluice.ops.variables" in loaded
    assert not [m for m in loaded if m.startswith(
        ("sluice.compat", "sluice.contrib"))]
