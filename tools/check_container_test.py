#!/usr/bin/env python3
"""Tests of tools/check_container.py: what it accepts and what it reports."""

import pathlib
import tempfile
import unittest

import check_container


class Recipes(unittest.TestCase):

    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.root = pathlib.Path(self.scratch.name)
        (self.root / "packaging/container").mkdir(parents=True)
        (self.root / "scripts").mkdir()
        script = self.root / "scripts/make"
        script.write_text("#!/bin/sh\n")
        script.chmod(0o755)
        (self.root / "build").mkdir()
        (self.root / ".dockerignore").write_text("build\n")

    def found(self, text):
        (self.root / "packaging/container/Dockerfile").write_text(text)
        return [message for _, message in check_container.check(self.root)]

    def test_a_sound_recipe_passes(self):
        self.assertEqual(self.found(
            "# Two stages.\nFROM debian:12 AS made\nCOPY scripts/make scripts/\n"
            "RUN scripts/make && \\\n    ls\nFROM debian:12\n"
            "COPY --from=made /a /b\nUSER me\nENTRYPOINT [\"a\"]\n"), [])

    def test_each_mistake_is_reported(self):
        sound = "FROM debian:12\n%s\nUSER me\n"
        for line, expected in (
                ("RUM ls", "instruction"), ("RUN", "arguments"),
                ("RUN if true; then", "shell command"),
                ("RUN scripts/other", "script of the checkout"),
                ("COPY absent /a", "file of the checkout"),
                ("COPY build /a", "outside .dockerignore"),
                ("COPY --from=made /a /b", "earlier stage"),
                ("COPY scripts", "destination"),
                ("CMD sluice", "list in JSON"),
                ("FROM debian", "IMAGE:TAG")):
            found = self.found(sound % line)
            self.assertEqual(len(found), 1, (line, found))
            self.assertIn(expected, found[0])

    def test_it_needs_a_stage_and_a_user(self):
        self.assertIn("FROM", self.found("RUN ls\nFROM debian:12\nUSER a\n")[0])
        self.assertIn("root", self.found("FROM debian:12\nRUN ls\n")[0])


if __name__ == "__main__":
    unittest.main()
