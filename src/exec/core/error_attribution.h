// Attribution of errors of fused nodes to the original nodes.
#ifndef SLUICE_EXEC_CORE_ERROR_ATTRIBUTION_H_
#define SLUICE_EXEC_CORE_ERROR_ATTRIBUTION_H_

#include <string>

#include "base/status.h"
#include "graph/node.h"

namespace sluice {

// Attributes an error to a node of the user's graph instead of the node that
// ran; `described` is that node's Node::Describe(). The first attribution is
// kept.
Status AttributedTo(Status s, const std::string& described);
// The node that the message should name: the attributed one, or else `ran`.
std::string DescribeAttributed(const Status& s, const Node& ran);

}  // namespace sluice

#endif  // SLUICE_EXEC_CORE_ERROR_ATTRIBUTION_H_
