// What a graph shows of itself (sluice/framework/show.py).
#include "inspect/graph_boxes.h"
#include "objects.h"
#include "values.h"

namespace sluice::python {
namespace {

int Count(const show::Box& box) {
  int n = 0;
  for (const show::Box::Item& item : box.items)
    n += item.box == nullptr ? 1 : Count(*item.box);
  return n;
}

// ("node", name, op, names of inputs, its whole line, whether it has state)
py::object ShownNode(const show::Part& part, const Node& n) {
  std::vector<std::string> inputs;
  for (const Output& in : n.inputs())
    if (in.valid()) inputs.push_back(in.name());
  for (const Node* c : n.control_inputs()) inputs.push_back("^" + c->name());
  return py::make_tuple("node", n.name(), n.op_name(), inputs, part.Line(n),
                        n.op().stateful);
}

// (kind, title, items, a last line, how many nodes were left out): while there
// is room, which is counted down.
py::object ShownBox(const show::Box& box, int* room) {
  static constexpr const char* kKinds[] = {"graph", "loop", "branch",
                                           "call",  "part", "gradients"};
  py::list items;
  int left_out = 0;
  for (const show::Box::Item& item : box.items) {
    if (--*room < 0)
      left_out += item.box == nullptr ? 1 : Count(*item.box);
    else if (item.box != nullptr)
      items.append(ShownBox(*item.box, room));
    else
      items.append(ShownNode(*item.part, *item.node));
  }
  return py::make_tuple(kKinds[box.kind], box.title, items, box.last, left_out);
}

py::object ShownGraph(PyGraph& g, int most) {
  const GraphLock lock(g);
  const auto boxes =
      Checked(show::Boxes::Of(&g, {.most = most, .gradients = true}));
  return ShownBox(boxes->whole(), &most);
}

}  // namespace

void AddShow(py::module_& m) { m.def("shown_graph", ShownGraph); }

}  // namespace sluice::python
