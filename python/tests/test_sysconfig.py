"""Tests of sluice.sysconfig: options for building C programs."""

import pytest

from sluice import sysconfig


@pytest.fixture
def wheel(tmp_path, monkeypatch):
    """A folder with the files that a wheel has."""
    (tmp_path / "include").mkdir()
    (tmp_path / "cmake").mkdir()
    (tmp_path / "libsluice_c.so.0").touch()
    monkeypatch.setattr(sysconfig, "_FOLDER", str(tmp_path))
    return tmp_path


def test_options_name_the_package(wheel, capsys):
    assert sysconfig.get_include() == f"{wheel}/include"
    assert sysconfig.get_lib() == str(wheel)
    assert sysconfig.get_cmake_dir() == f"{wheel}/cmake"
    sysconfig.main(["--libs", "--cflags"])
    words = capsys.readouterr().out.split()
    assert words[0] == f"-I{wheel}/include"
    assert words[1:] == sysconfig.get_link_flags()
    assert f"-Wl,-rpath,{wheel}" in words


@pytest.mark.parametrize("option, missing", [
    ("--cflags", "include"), ("--libs", "libsluice_c.so.0"),
    ("--cmake-dir", "cmake")])
def test_what_is_not_there_is_an_error(tmp_path, monkeypatch, option, missing):
    monkeypatch.setattr(sysconfig, "_FOLDER", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=f"expected .*{missing}.*got none"):
        sysconfig.main([option])


def test_no_option_is_a_mistake(wheel, capsys):
    with pytest.raises(SystemExit) as stopped:
        sysconfig.main([])
    assert stopped.value.code == 2
    assert "expected at least one option" in capsys.readouterr().err
