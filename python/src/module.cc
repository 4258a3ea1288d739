// The extension module sluice._core. Not for users: the package's modules make
// of it what is documented.
#include "objects.h"
#include "ops.h"
#include "scopes.h"

namespace sluice::py {

extern PyMethodDef flow_functions[];
bool AddSessionTypes(PyObject* module);

namespace {

PyMethodDef own_functions[] = {
    {"set_hooks", Fast(SetHooks), METH_VARARGS | METH_KEYWORDS, nullptr},
    {"set_package", SetPackage, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr}};

PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                          "sluice._core",
                          "What sluice does in C++.",
                          -1,
                          own_functions,
                          nullptr,
                          nullptr,
                          nullptr,
                          nullptr};

PyObject* Make() {
  Ref module(PyModule_Create(&definition));
  if (!module || !AddTypes(module.get()) || !AddOpFunctions(module.get()) ||
      !AddSessionTypes(module.get()) ||
      PyModule_AddFunctions(module.get(), op_functions) < 0 ||
      PyModule_AddFunctions(module.get(), scope_functions) < 0 ||
      PyModule_AddFunctions(module.get(), flow_functions) < 0)
    return nullptr;
  return module.release();
}

}  // namespace
}  // namespace sluice::py

PyMODINIT_FUNC PyInit__core() { return sluice::py::Make(); }
