#include "stacks.h"

#include <frameobject.h>

#include <algorithm>

namespace sluice::python {
namespace {

// The instruction: which line that is takes long to find out. (Python before
// 3.11 says the line only.)
#if PY_VERSION_HEX >= 0x030b0000
int PlaceOf(PyFrameObject* frame) { return PyFrame_GetLasti(frame); }
int LineOf(py::handle code, int place) {
  return PyCode_Addr2Line(reinterpret_cast<PyCodeObject*>(code.ptr()), place);
}
#else
int PlaceOf(PyFrameObject* frame) { return PyFrame_GetLineNumber(frame); }
int LineOf(py::handle, int place) { return place; }
#endif

}  // namespace

void Stacks::Record(int first, int end) {
  std::vector<std::pair<py::object, int>> calls;  // Innermost first.
  auto frame = py::reinterpret_borrow<py::object>(
      reinterpret_cast<PyObject*>(PyEval_GetFrame()));
  while (frame) {
    auto* const f = reinterpret_cast<PyFrameObject*>(frame.ptr());
    calls.emplace_back(py::reinterpret_steal<py::object>(
                           reinterpret_cast<PyObject*>(PyFrame_GetCode(f))),
                       PlaceOf(f));
    frame = py::reinterpret_steal<py::object>(
        reinterpret_cast<PyObject*>(PyFrame_GetBack(f)));
  }
  std::reverse(calls.begin(), calls.end());
  size_t same = 0;  // How much of it is that of the one before.
  while (same < calls.size() && same < last_.size()) {
    const Frame& known = frames_[static_cast<size_t>(last_[same])];
    if (!known.code.is(calls[same].first) || known.place != calls[same].second)
      break;
    ++same;
  }
  last_.resize(same);
  for (size_t i = same; i < calls.size(); ++i) {
    frames_.push_back({last_.empty() ? -1 : last_.back(),
                       std::move(calls[i].first), calls[i].second});
    last_.push_back(static_cast<int>(frames_.size()) - 1);
  }
  of_node_.resize(std::max(of_node_.size(), static_cast<size_t>(end)), -1);
  for (auto node = static_cast<size_t>(first); node < static_cast<size_t>(end);
       ++node)
    if (of_node_[node] < 0 && !last_.empty()) of_node_[node] = last_.back();
}

py::list Stacks::Of(int node) const {
  py::list calls;
  if (static_cast<size_t>(node) >= of_node_.size()) return calls;
  for (int at = of_node_[static_cast<size_t>(node)]; at >= 0;) {
    const Frame& frame = frames_[static_cast<size_t>(at)];
    calls.append(py::make_tuple(frame.code.attr("co_filename"),
                                LineOf(frame.code, frame.place),
                                frame.code.attr("co_name")));
    at = frame.caller;
  }
  calls.attr("reverse")();
  return calls;
}

}  // namespace sluice::python
