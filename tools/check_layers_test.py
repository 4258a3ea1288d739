#!/usr/bin/env python3
"""Tests of tools/check_layers.py: what it accepts and what it reports."""

import unittest

import check_layers


def breaches(path, text):
    return [message for _, message in check_layers.check_file(path, text)]


class Includes(unittest.TestCase):

    def test_a_folder_includes_those_below_and_itself(self):
        for header in ("base/status.h", "tensor/dtype.h", "graph/node.h"):
            self.assertIsNone(
                check_layers.check_include("src/graph/graph.cc", header))

    def test_a_folder_does_not_include_those_above(self):
        self.assertIn("graph/ may include base, tensor",
                      breaches("src/graph/graph.cc",
                               '#include "session/session.h"\n')[0])

    def test_kernels_know_no_graph(self):
        self.assertTrue(check_layers.check_include(
            "src/kernels/simd/add.cc", "graph/node.h"))

    def test_third_party_stays_in_its_place(self):
        check = check_layers.check_include
        self.assertIsNone(check("src/kernels/dnn/conv.cc", "dnnl.hpp"))
        self.assertTrue(check("src/ops/conv_ops.cc", "dnnl.hpp"))
        self.assertIsNone(check("src/graph/graphdef.cc",
                                "graph/proto/graph.pb.h"))
        self.assertTrue(check("src/graph/graph.cc", "graph/proto/graph.pb.h"))

    def test_only_what_is_above_ops_uses_the_generated_builders(self):
        check = check_layers.check_include
        self.assertIsNone(check("src/client/autodiff/gradients.cc", "sluice/ops.h"))
        self.assertTrue(check("src/ops/math_ops.cc", "sluice/ops.h"))

    def test_tests_may_reach_up_and_examples_see_public_headers_only(self):
        check = check_layers.check_include
        self.assertIsNone(check("src/exec/core/frame_test.cc", "session/session.h"))
        self.assertIsNone(check("examples/figure1.cc", "sluice/sluice.h"))
        self.assertTrue(check("examples/figure1.cc", "graph/node.h"))


class Rooms(unittest.TestCase):

    def test_a_room_includes_what_the_table_says(self):
        check = check_layers.check_include
        self.assertIsNone(check("src/exec/fusion/a.cc", "exec/core/plan.h"))
        self.assertTrue(check("src/exec/core/plan.cc", "exec/fusion/regions.h"))
        self.assertTrue(check("src/ops/common/a.cc", "ops/math/elementwise.h"))
        self.assertIsNone(check("src/ops/nn/conv.cc", "ops/math/elementwise.h"))
        self.assertIsNone(check("src/client/nn/rnn.cc", "client/variables.h"))
        self.assertTrue(check("src/client/variables.cc", "client/nn/rnn.h"))
        self.assertTrue(check("src/cluster/transport/wire.cc",
                              "cluster/master/master.h"))


class Cycles(unittest.TestCase):

    def test_folders_may_not_include_each_other(self):
        texts = {
            "src/ops/a/a.h": '#include "ops/b/b.h"\n',
            "src/ops/b/b.h": '#include "ops/c/c.h"\n#include <map>\n',
            "src/ops/c/c.h": "",
            "src/ops/c/d.cc": '#include "ops/c/c.h"\n#include "ops/e/e.h"\n',
            "src/ops/e/e.h": "",
            "src/ops/c/c_test.cc": '#include "ops/a/a.h"\n',
        }
        self.assertEqual(list(check_layers.check_cycles(texts)), [])
        texts["src/ops/e/e.h"] = '#include "ops/b/b.h"\n'
        self.assertEqual(
            list(check_layers.check_cycles(texts)),
            ["folders: expected no cycle of includes, got "
             "src/ops/b/b.h includes ops/c/c.h; "
             "src/ops/c/d.cc includes ops/e/e.h; "
             "src/ops/e/e.h includes ops/b/b.h"])


class Hosts(unittest.TestCase):

    def test_an_op_that_includes_files_says_that_it_reaches_the_host(self):
        op = '#include "io/file.h"\nSLUICE_OP(A)'
        self.assertIn(".ReachesHost()", breaches("src/ops/a.cc", op)[0])
        self.assertEqual(breaches(
            "src/ops/a.cc", op + ".ReachesHost(ReadsAFile)"), [])
        self.assertEqual(breaches("src/ops/a_test.cc", op), [])


class Files(unittest.TestCase):

    def test_header_guard(self):
        good = ("#ifndef SLUICE_BASE_A_B_H_\n#define SLUICE_BASE_A_B_H_\n"
                "#endif\n")
        self.assertEqual(breaches("src/base/a_b.h", good), [])
        self.assertIn("SLUICE_BASE_C_H_", breaches("src/base/c.h", good)[0])


if __name__ == "__main__":
    unittest.main()
