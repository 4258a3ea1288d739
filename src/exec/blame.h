// Errors of nodes that stand for several: whose they are.
#ifndef SLUICE_EXEC_BLAME_H_
#define SLUICE_EXEC_BLAME_H_

#include <string>

#include "base/status.h"
#include "graph/graph.h"

namespace sluice {

// Says that an error is that of a node which the user knows, and not of the one
// that ran: `described` as Node::Describe puts it. The first one to say so is
// believed.
Status BlamedOn(Status s, const std::string& described);
// Whom the message should name: who was blamed, or else `ran`.
std::string DescribeBlamed(const Status& s, const Node& ran);

}  // namespace sluice

#endif  // SLUICE_EXEC_BLAME_H_
