#include "graph/graphdef_view.h"

#include <map>
#include <random>

#include "base/sanitizers.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

constexpr char kGraphText[] = R"pb(
  node {
    name: "a"
    op: "Placeholder"
    device: "/cpu:0"
    attr {
      key: "dtype"
      value { type: DT_FLOAT }
    }
    attr {
      key: "shape"
      value {
        shape {
          dim { size: -1 }
          dim { size: 3 }
        }
      }
    }
  }
  node {
    name: "scope/constant"
    op: "Const"
    attr {
      key: "dtype"
      value { type: DT_INT32 }
    }
    attr {
      key: "value"
      value {
        tensor {
          dtype: DT_INT32
          tensor_shape {}
          int_val: 7
        }
      }
    }
    experimental_type {
      type_id: TFT_PRODUCT
      args { type_id: TFT_TENSOR }
    }
  }
  node {
    name: "b"
    op: "Some"
    input: "a"
    input: "scope/constant:1"
    input: "^a"
    attr {
      key: "i"
      value { i: -5 }
    }
    attr {
      key: "f"
      value { f: 2.5 }
    }
    attr {
      key: "b"
      value { b: true }
    }
    attr {
      key: "s"
      value { s: "\377text" }
    }
    attr {
      key: "l"
      value { list { i: 1 i: 2 } }
    }
    attr {
      key: "p"
      value { placeholder: "T" }
    }
    attr {
      key: "fn"
      value {
        func {
          name: "g"
          attr {
            key: "T"
            value { type: DT_BOOL }
          }
        }
      }
    }
    attr {
      key: "none"
      value {}
    }
    experimental_debug_info { original_node_names: "x" }
  }
  library { function { signature { name: "g" } } }
  versions { producer: 27 min_consumer: 12 }
  debug_info { files: "train.py" }
)pb";

std::string GraphBytes() {
  const Result<std::string> bytes = ParseTextGraphDef(kGraphText);
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  return bytes.value_or("");
}

std::string AttrText(const GraphDefView::Attr& a) {
  TensorProtoLimits limits{1 << 20};
  const Result<AttrValue> v = a.message != nullptr
                                  ? AttrFromProto(*a.message, &limits)
                                  : SimpleAttr(a.simple);
  return v.ok() ? v->ToString() : v.status().ToString();
}

// Everything that a view shows.
std::string Show(const GraphDefView& view) {
  std::string text;
  const auto add = [&text](std::string_view s) {
    text += std::string(s) + "|";
  };
  for (int i = 0; i < view.size(); ++i) {
    const GraphDefView::Node& n = view.node(i);
    for (const auto s : {n.name, n.op, n.device}) add(s);
    for (const auto s : view.inputs(i)) add(s);
    std::map<std::string, std::string> attrs;  // (Messages have no order.)
    for (const auto& a : view.attrs(i))
      attrs[std::string(a.name)] = AttrText(a);
    for (const auto& [name, value] : attrs) add(name + "=" + value);
    if (n.debug_info != nullptr)
      add(SerializeProto(*n.debug_info).value_or("?"));
    text += "\n";
  }
  proto::GraphDef rest = view.rest();
  rest.clear_node();
  return text + SerializeProto(rest).value_or("?");
}

// The bytes are what the message is, or neither is one.
void ExpectSame(const std::string& bytes) {
  proto::GraphDef def;
  const Status parsed = ParseGraphDef(bytes, &def);
  GraphDefView view;
  const Status read = view.Parse(bytes);
  ASSERT_EQ(read.ToString(), parsed.ToString());
  if (read.ok()) {
    ASSERT_EQ(Show(view), Show(GraphDefView(def)));
  }
}

TEST(GraphDefViewTest, ShowsWhatAMessageHas) {
  const std::string bytes = GraphBytes();
  ExpectSame(bytes);
  GraphDefView view;
  ASSERT_TRUE(view.Parse(bytes).ok());
  ASSERT_EQ(view.size(), 3);
  EXPECT_EQ(view.node(1).name, "scope/constant");
  EXPECT_EQ(view.inputs(2)[1], "scope/constant:1");
  EXPECT_EQ(view.rest().versions().producer(), 27);
  EXPECT_EQ(view.rest().node_size(), 0);
  // Views of the bytes, not copies of messages.
  EXPECT_EQ(view.attrs(0)[0].message, nullptr);
  EXPECT_GE(view.node(0).name.data(), bytes.data());
  EXPECT_LT(view.node(0).name.data(), bytes.data() + bytes.size());
}

TEST(GraphDefViewTest, ChangedBytesAreWhatTheMessageIs) {
  const uint32_t seed = std::random_device()();
  std::printf("seed %u\n", seed);
  std::mt19937 random(seed);
  const std::string bytes = GraphBytes();
  for (int i = 0; i < (kSanitized ? 4000 : 20000); ++i) {
    std::string changed = bytes;
    for (size_t n = 1 + random() % 3; n > 0; --n) {
      const size_t at = random() % changed.size();
      switch (random() % 4) {
        case 0:
          changed[at] = static_cast<char>(random());
          break;
        case 1:
          changed[at] = static_cast<char>(changed[at] ^ (1 << random() % 8));
          break;
        case 2:
          changed.erase(at, random() % 4);
          break;
        default:
          changed.insert(at, 1, static_cast<char>(random()));
      }
      if (changed.empty()) break;
    }
    SCOPED_TRACE(i);
    ExpectSame(changed);
    if (HasFatalFailure()) return;
  }
}

std::string Field(int number, const std::string& bytes) {
  return std::string(1, static_cast<char>(number << 3 | 2)) +
         static_cast<char>(bytes.size()) + bytes;
}

// What no known writer writes, but the format allows.
TEST(GraphDefViewTest, UnusualEncodings) {
  const std::string node = Field(1, "n") + Field(2, "Op");
  const std::string one = Field(1, "k") + Field(2, "\x18\x01");
  const std::string two = Field(1, "k") + Field(2, "\x18\x02");
  const std::string turned = Field(2, "\x18\x03") + Field(1, "k");
  const std::string both = Field(1, "k") + Field(2, "\x18\x03\x28\x01");
  const std::string debug = Field(6, Field(1, "x"));
  for (const std::string& n :
       {node, node + Field(1, "again"), node + Field(5, one) + Field(5, two),
        node + Field(5, turned), node + Field(5, both),
        node + Field(5, Field(1, "k")), node + Field(5, Field(2, "\x18\x02")),
        node + Field(5, one + Field(3, "unknown")), node + debug + debug,
        node + Field(15, "unknown"), node + std::string("\x08\x01", 2),
        node + Field(3, "\xff"), node + Field(5, Field(1, "\xff")),
        node + Field(5, Field(1, "k") + Field(2, Field(9, "\xff"))),
        node + std::string("\x0b\x0c", 2), std::string()}) {
    SCOPED_TRACE(n);
    ExpectSame(Field(1, n));
    ExpectSame(Field(4, std::string("\x08\x01", 2)) + Field(1, n) +
               Field(4, std::string("\x10\x02", 2)));
  }
}

TEST(GraphDefViewTest, DeepMessages) {
  for (int depth = 10; depth < 120; ++depth) {
    std::string value = Field(10, Field(1, "f"));
    std::string bytes;
    const auto wrap = [](int number, const std::string& s) {
      std::string out(1, static_cast<char>(number << 3 | 2));
      for (size_t n = s.size();; n >>= 7) {
        if (n < 0x80) return out + static_cast<char>(n) + s;
        out += static_cast<char>(n | 0x80);
      }
    };
    for (int i = 0; i < depth / 3; ++i)
      value = wrap(10, wrap(2, wrap(1, "k") + wrap(2, value)));
    for (int i = 0; i < depth % 3; ++i) value = wrap(1, wrap(8, value));
    ExpectSame(wrap(1, wrap(5, wrap(1, "k") + wrap(2, value))));
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace sluice
