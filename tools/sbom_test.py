#!/usr/bin/env python3
"""Tests of tools/sbom.py, on a program of the system."""

import json
import os
import re
import subprocess
import sys
import unittest

import sbom


class Documents(unittest.TestCase):

    def document(self, **more):
        return sbom.document("sluice", ["/usr/bin/cmake"], **more)

    def test_it_lists_what_is_loaded_and_what_is_compiled_in(self):
        names = {c["name"]: c for c in self.document()["components"]}
        self.assertIn("libc6", names)       # (cmake loads it.)
        self.assertIn("libeigen3-dev", names)
        self.assertRegex(names["libc6"]["purl"],
                         r"^pkg:deb/debian/libc6@[\w.+~:-]+\?arch=\w+$")
        self.assertIn({"license": {"name": "MPL-2"}},
                      names["libeigen3-dev"]["licenses"])

    def test_every_component_is_a_dependency_once(self):
        made = self.document(pypi=["pybind11==2.13.6"])
        refs = [c["bom-ref"] for c in made["components"]]
        self.assertEqual(len(refs), len(set(refs)))
        self.assertEqual(made["dependencies"][0]["dependsOn"], refs)
        self.assertIn("pkg:pypi/pybind11@2.13.6", refs)

    def test_the_bytes_follow_from_the_input(self):
        command = [sys.executable, sbom.__file__, "sluice", "/usr/bin/cmake"]
        first, second = (
            subprocess.run(command, capture_output=True, check=True,
                           env={**os.environ, "SOURCE_DATE_EPOCH": "86400"}).stdout
            for _ in range(2))
        self.assertEqual(first, second)
        made = json.loads(first)
        self.assertEqual(made["metadata"]["timestamp"], "1970-01-02T00:00:00Z")
        self.assertTrue(re.fullmatch(r"urn:uuid:[\da-f-]{36}",
                                     made["serialNumber"]))

    def test_a_library_of_no_package_is_refused(self):
        paths = sbom.library_paths
        self.addCleanup(setattr, sbom, "library_paths", paths)
        sbom.library_paths = lambda files: [__file__]
        with self.assertRaisesRegex(SystemExit, "of a Debian package"):
            self.document()


if __name__ == "__main__":
    unittest.main()
