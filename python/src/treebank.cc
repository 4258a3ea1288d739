// Files of parse trees (sluice/client/treebank.py).
#include "io/treebank.h"

#include "py.h"
#include "values.h"

namespace sluice::python {
namespace {

// Words are UTF-8; bytes that are not become surrogates, as Python has it for
// names of files.
py::str ToWord(const std::string& word) {
  PyObject* const text = PyUnicode_DecodeUTF8(
      word.data(), static_cast<Py_ssize_t>(word.size()), "surrogateescape");
  if (text == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::str>(text);
}

std::string FromWord(const py::str& word) {
  const auto bytes = py::reinterpret_steal<py::object>(
      PyUnicode_AsEncodedString(word.ptr(), "utf-8", "surrogateescape"));
  if (!bytes) throw py::error_already_set();
  return py::cast<std::string>(bytes);
}

// The columns of what `read` gives with the options, and the words, as a tuple.
template <typename Read>
py::tuple ReadColumns(int labels, const std::vector<py::str>& vocabulary,
                      const Read& read) {
  TreebankOptions options;
  options.labels = labels;
  for (const py::str& word : vocabulary)
    options.vocabulary.push_back(FromWord(word));
  const Result<Treebank> bank = [&] {
    const OthersRun others_run;
    return read(options);
  }();
  CheckRun(bank.status(), py::none());
  py::list words;
  for (const std::string& word : bank->words) words.append(ToWord(word));
  const auto column = [](const std::vector<int32_t>& values) {
    return ToNumpy(Tensor::Vector<int32_t>(values));
  };
  return py::make_tuple(column(bank->left), column(bank->right),
                        column(bank->word), column(bank->label),
                        column(bank->roots), words);
}

}  // namespace

void AddTreebanks(py::module_& m) {
  m.def("read_treebank", [](const std::string& path, int labels,
                            const std::vector<py::str>& vocabulary) {
    return ReadColumns(labels, vocabulary, [&](const TreebankOptions& options) {
      return ReadTreebank(path, options);
    });
  });
  m.def("parse_treebank", [](const std::string& text, int labels,
                             const std::vector<py::str>& vocabulary,
                             const std::string& name) {
    return ReadColumns(labels, vocabulary, [&](const TreebankOptions& options) {
      return ParseTreebank(text, options, name);
    });
  });
}

}  // namespace sluice::python
