// Attributes of nodes: checks against the op's declaration, and the number and
// types of inputs and outputs that they determine.
#ifndef SLUICE_GRAPH_NODE_ATTRS_H_
#define SLUICE_GRAPH_NODE_ATTRS_H_

#include <span>

#include "graph/attr.h"
#include "graph/op_def.h"

namespace sluice {

// Converts a value to the declared kind where that is lossless: an empty list
// of unknown kind, an int given for a float.
AttrValue Coerce(const AttrDef& def, AttrValue v);

// Checks that the value is of the declared kind and among the allowed values.
Status CheckAttr(const AttrDef& def, const AttrValue& v);

// Checks that the placeholder of a function's attribute may be the value: the
// attribute determines no types, and is no function.
Status CheckPlaceholder(const OpDef& op, const AttrDef& def,
                        const AttrValue::Placeholder& v);

// Number of tensors that argument `arg` stands for, given the attributes.
Result<int64_t> ArgCount(const ArgDef& arg, const AttrMap& attrs);

// Type of the `k`-th of them.
DType ArgType(const ArgDef& arg, const AttrMap& attrs, int64_t k);

// Fills in type and count attributes that the inputs determine.
Status InferAttrs(const OpDef& op, std::span<const DType> in, AttrMap& attrs);

}  // namespace sluice

#endif  // SLUICE_GRAPH_NODE_ATTRS_H_
