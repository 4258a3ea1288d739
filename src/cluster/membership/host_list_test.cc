// Host lists in all the formats of schedulers.
#include "cluster/membership/host_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

TEST(SlurmHosts, RangesKeepDigitsAndOrder) {
  const std::pair<const char*, std::vector<std::string>> cases[] = {
      {"node[001-003,7]", {"node001", "node002", "node003", "node7"}},
      {"gpu1,login", {"gpu1", "login"}},
      {"n[9-11]", {"n9", "n10", "n11"}},
      {"n[08-10].x.org", {"n08.x.org", "n09.x.org", "n10.x.org"}},
      {"r[1-2]n[0-1]-ib,z", {"r1n0-ib", "r1n1-ib", "r2n0-ib", "r2n1-ib", "z"}},
      {"b,a[2,1]", {"b", "a2", "a1"}},
      {"lonely[5]", {"lonely5"}},
  };
  for (const auto& [text, want] : cases) {
    const auto got = ParseSlurmHosts(text);
    ASSERT_TRUE(got.ok()) << text << got.status();
    EXPECT_EQ(*got, want) << text;
  }
  EXPECT_EQ(ParseSlurmHosts("n[0-65535]")->size(), 65536u);
}

TEST(SlurmHosts, InvalidListIsAnError) {
  for (const char* text :
       {"", ",", "a,", "n[", "n]", "n[]", "n[1", "n[1-]", "n[3-1]", "n[a-b]",
        "n[1-2-3]", "n[[1]]", "n[-1]", "n 1", "n[1-99999999999999999999]",
        "n[0-65536]", "a[0-999]b[0-999]", "n[0-65535],m", "n[1.5]"}) {
    const auto got = ParseSlurmHosts(text);
    EXPECT_FALSE(got.ok()) << text;
    EXPECT_THAT(std::string(got.status().message()), HasSubstr("expected"));
  }
}

TEST(SlurmCounts, RepetitionsAreExpanded) {
  EXPECT_THAT(*ParseSlurmCounts("2(x3),1"), ElementsAre(2, 2, 2, 1));
  EXPECT_THAT(*ParseSlurmCounts("16"), ElementsAre(16));
  for (const char* text : {"", "0", "2(x0)", "2(x", "2(x3", "x", "2(x3),",
                           "1(x99999),1(x99999)", "-1"})
    EXPECT_FALSE(ParseSlurmCounts(text).ok()) << text;
}

TEST(HostSlotLists, ParsesBothMpiFormats) {
  EXPECT_THAT(*ParseHostSlots("a:2,b,10.0.0.1:3"),
              ElementsAre(Pair("a", 2), Pair("b", 1), Pair("10.0.0.1", 3)));
  EXPECT_THAT(*ParseHostFile("# ours\n"
                             "a slots=2 max_slots=4\n"
                             "\tb:3   # MPICH\n\n"
                             "c\r\n"
                             "a\n"),
              ElementsAre(Pair("a", 3), Pair("b", 3), Pair("c", 1)));
  for (const char* text : {"", ":2", "a:", "a:0", "a:x", "a,,b"})
    EXPECT_FALSE(ParseHostSlots(text).ok()) << text;
  for (const char* text : {"", "# none\n", "a slots=x\n", "a slots=0\n", ":1"})
    EXPECT_FALSE(ParseHostFile(text).ok()) << text;
  EXPECT_THAT(std::string(ParseHostFile("a\nb slots=-1").status().message()),
              HasSubstr("line 2"));
}

}  // namespace
}  // namespace sluice
