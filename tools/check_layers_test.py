#!/usr/bin/env python3
"""Tests of tools/check_layers.py: what it accepts and what it reports."""

import unittest

import check_layers


def breaches(path, text):
    return [message for _, message in check_layers.check_file(path, text)]


class Includes(unittest.TestCase):

    def test_folder_may_include_itself_and_lower_folders(self):
        for header in ("base/status.h", "tensor/dtype.h", "graph/node.h"):
            self.assertIsNone(
                check_layers.check_include("src/graph/graph.cc", header))

    def test_folder_may_not_include_higher_folders(self):
        self.assertIn("graph/ may include base, tensor",
                      breaches("src/graph/graph.cc",
                               '#include "session/session.h"\n')[0])

    def test_kernels_may_not_include_the_graph(self):
        self.assertTrue(check_layers.check_include(
            "src/kernels/simd/add.cc", "graph/node.h"))

    def test_third_party_headers_are_restricted_to_their_folders(self):
        check = check_layers.check_include
        self.assertIsNone(check("src/kernels/dnn/conv.cc", "dnnl.hpp"))
        self.assertTrue(check("src/ops/conv_ops.cc", "dnnl.hpp"))
        self.assertIsNone(check("src/graph/graphdef.cc",
                                "graph/proto/graph.pb.h"))
        self.assertTrue(check("src/graph/graph.cc", "graph/proto/graph.pb.h"))

    def test_generated_builders_are_used_only_above_ops(self):
        check = check_layers.check_include
        self.assertIsNone(check("src/client/autodiff/gradients.cc", "sluice/ops.h"))
        self.assertTrue(check("src/ops/math_ops.cc", "sluice/ops.h"))

    def test_tests_may_reach_up_and_examples_see_public_headers_only(self):
        check = check_layers.check_include
        self.assertIsNone(check("src/exec/core/frame_test.cc", "session/session.h"))
        self.assertIsNone(check("examples/figure1.cc", "sluice/sluice.h"))
        self.assertTrue(check("examples/figure1.cc", "graph/node.h"))


class Rooms(unittest.TestCase):

    def test_subfolder_includes_follow_the_table(self):
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


class Types(unittest.TestCase):

    def test_a_name_is_of_one_type_in_a_namespace(self):
        texts = {
            "src/a/a.h": "namespace sluice {\nstruct A {\n};\nclass B;\n"
                         "}  // namespace sluice\n",
            "src/a/b.h": "namespace sluice {\nclass B : public A {\n};\n"
                         "namespace b {\nclass A {\n};\n}  // namespace b\n"
                         "template <>\nstruct A<int> {\n};\n"
                         "}  // namespace sluice\n",
            "src/a/a_test_util.h": "namespace sluice {\nstruct A {\n};\n"
                                   "}  // namespace sluice\n",
        }
        self.assertEqual(list(check_layers.check_types(texts)), [])
        texts["src/c/c.h"] = ("namespace sluice {\nenum class A {\n};\n"
                              "using B = int;\n}  // namespace sluice\n")
        self.assertEqual(
            list(check_layers.check_types(texts)),
            ["type: expected one definition of sluice::A, got those of "
             "src/a/a.h and src/c/c.h",
             "type: expected one definition of sluice::B, got those of "
             "src/a/b.h and src/c/c.h"])


class Hosts(unittest.TestCase):

    def test_op_that_includes_files_declares_host_reach(self):
        op = '#include "io/file.h"\nSLUICE_OP(A)'
        self.assertIn(".ReachesHost()", breaches("src/ops/a.cc", op)[0])
        self.assertEqual(breaches(
            "src/ops/a.cc", op + ".ReachesHost(ReadsAFile)"), [])
        self.assertEqual(breaches("src/ops/a_test.cc", op), [])
        # What declares no op hands it on to those that include its header.
        self.assertEqual(breaches("src/ops/readers/formats.cc", op), [])
        self.assertIn(".ReachesHost()", breaches(
            "src/ops/a.cc", '#include "ops/readers/formats.h"\n')[0])


class Names(unittest.TestCase):

    BY_NAME = (
        'if (n.op_name() == "Add") return;',
        'if (n.op_name() !=\n    "Add") return;',
        'if ("Add" == n->op_name()) return;',
        'if (n->op_name().starts_with("TensorArray")) return;',
        'if (n->op_name().rfind("TensorArray", 0) == 0) return;',
        'if (absl::StartsWith(o.node->op_name(), "Get")) return;',
        'if (IsOneOf(n.op_name(), {"Add", "AddV2"})) return;',
        'if (n.op().name == "Add") return;',
        'const std::string& op = n.op_name();\nif (op == "Add") return;',
        'const std::string_view s = n.op_name();\n'
        'if (s.starts_with("Add")) return;',
        'if (n.op().family == "random") return;',
    )

    def test_an_op_is_not_recognised_by_its_name(self):
        for code in self.BY_NAME:
            told = breaches("src/passes/cse.cc", code)
            self.assertEqual(len(told), 1, code)
            self.assertIn("expected its kind, role or another trait", told[0])

    def test_the_line_of_a_comparison_is_told(self):
        code = '// n.op_name() == "Add"\n\nx = n.op_name() == "Add";'
        self.assertEqual([line for line, _ in check_layers.check_names(
            "src/passes/cse.cc", code)], [3])

    def test_names_may_be_shown_looked_up_and_compared_with_other_names(self):
        for code in ('log->push_back(n->op_name());',
                     'times.find(node.op_name());',
                     'if (kept.op != node.op_name()) return;',
                     'spec.op = call->op_name();\nif (op == "Add") return;',
                     'x = n->kind() == OpKind::kAdd;'):
            self.assertEqual(breaches("src/passes/cse.cc", code), [], code)

    def test_declarations_tests_and_formats_may_use_names(self):
        for path in ("src/ops/math/binary.cc", "src/passes/cse_test.cc",
                     "src/graph/graphdef_import.cc"):
            for code in self.BY_NAME:
                self.assertEqual(breaches(path, code), [], code)

    def test_passes_ask_for_a_fact_and_not_for_the_flag(self):
        code = "if (n.op().stateful) return;"
        self.assertIn("expected a fact", breaches("src/passes/cse.cc", code)[0])
        self.assertEqual(breaches("src/graph/graphdef_op.cc", code), [])
        self.assertEqual(breaches("tools/sluice/show_dot.cc", code), [])


class Files(unittest.TestCase):

    def test_header_guard(self):
        good = ("#ifndef SLUICE_BASE_A_B_H_\n#define SLUICE_BASE_A_B_H_\n"
                "#endif\n")
        self.assertEqual(breaches("src/base/a_b.h", good), [])
        self.assertIn("SLUICE_BASE_C_H_", breaches("src/base/c.h", good)[0])


if __name__ == "__main__":
    unittest.main()
