#include "cluster/transport/shared/ring.h"

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <random>
#include <semaphore>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/failpoint.h"
#include "base/sanitizers.h"
#include "cluster/testing/child_process_test_util.h"
#include "cluster/testing/transport_test_util.h"
#include "cluster/transport/grpc/transport.h"

namespace sluice {
namespace {

struct Ends {
  Ends() {
    int fd = -1;
    auto made = RingWriter::Make(&fd);
    EXPECT_TRUE(made.ok()) << made.status();
    auto mapped = RingReader::Map(fd);
    EXPECT_TRUE(mapped.ok()) << mapped.status();
    close(fd);
    writer = *std::move(made);
    reader = *std::move(mapped);
  }
  std::unique_ptr<RingWriter> writer;
  std::unique_ptr<RingReader> reader;
};

size_t RingMappings() {
  std::ifstream maps("/proc/self/maps");
  size_t count = 0;
  for (std::string line; std::getline(maps, line);)
    count += line.find("sluice-ring") != line.npos;
  return count;
}

// Counts only the open files of rings and mailboxes, because other files
// (gRPC's sockets from earlier tests) may be closed by other threads meanwhile.
size_t RingFiles() {
  size_t count = 0;
  DIR* const folder = opendir("/proc/self/fd");
  while (const dirent* const entry = readdir(folder)) {
    const int fd = atoi(entry->d_name);
    char target[64] = {};
    (void)readlinkat(dirfd(folder), entry->d_name, target, sizeof target - 1);
    int domain = 0, type = 0;
    socklen_t size = sizeof domain;
    const bool mailbox =
        getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 &&
        getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 &&
        domain == AF_UNIX && type == SOCK_DGRAM;
    count += mailbox || std::strstr(target, "sluice-ring") != nullptr;
  }
  closedir(folder);
  return count;
}

std::string SomeName() {
  return absl::StrCat("sluice-test-", getpid(), "-", NewRingToken()[0]);
}

TEST(SharedRing, IsUsableOnceAccepted) {
  int fd = -1;
  auto writer = RingWriter::Make(&fd);
  ASSERT_TRUE(writer.ok()) << writer.status();
  EXPECT_FALSE((*writer)->accepted());
  const auto reader = RingReader::Map(fd);
  close(fd);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_TRUE((*writer)->accepted());
}

TEST(SharedRing, AcceptsPiecesUntilFullAndSignalsRoomOnce) {
  Ends ends;
  for (int round = 0; round < 3; ++round) {
    std::string said(RingHeader::kPiece + 7, static_cast<char>('a' + round));
    EXPECT_EQ(ends.writer->Put(said), RingHeader::kPiece);
    EXPECT_EQ(ends.writer->Put("short"), 5u);
    for (uint32_t i = 2; i < RingHeader::kPieces; ++i)
      EXPECT_EQ(ends.writer->Put("x"), 1u);
    EXPECT_EQ(ends.writer->Put("more"), 0u);
    EXPECT_EQ(ends.reader->Next(), said.substr(7));
    int told = ends.reader->Done();
    EXPECT_EQ(ends.reader->Next().substr(0, 5), "short");
    for (uint32_t i = 1; i < RingHeader::kPieces; ++i)
      told += ends.reader->Done();
    EXPECT_EQ(told, 1);
  }
}

// The sender sleeps whenever the ring is full and only the notice from Done
// wakes it: if one is lost, this never ends.
TEST(SharedRing, RoomSignalsAreNotLostBetweenThreads) {
  Ends ends;
  constexpr uint32_t kMessages = kSanitized ? 4000 : 20000;
  std::counting_semaphore<> full(0), room(0);
  std::thread receiver([&] {
    for (uint32_t i = 0; i < kMessages; ++i) {
      full.acquire();
      uint32_t got;
      std::memcpy(&got, ends.reader->Next().data(), sizeof(got));
      EXPECT_EQ(got, i);
      if (ends.reader->Done()) room.release();
    }
  });
  for (uint32_t i = 0; i < kMessages; ++i) {
    const std::string_view bytes(reinterpret_cast<const char*>(&i), sizeof(i));
    while (ends.writer->Put(bytes) == 0) room.acquire();
    full.release();
  }
  receiver.join();
}

TEST(SharedRing, CorruptHeaderCanOnlyBlockTheSender) {
  int fd = -1;
  auto writer = RingWriter::Make(&fd);
  ASSERT_TRUE(writer.ok());
  void* const at =
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  std::mt19937_64 random(1);
  for (int i = 0; i < 1000; ++i) {
    auto* const header = static_cast<RingHeader*>(at);
    header->taken.store(static_cast<uint32_t>(random()));
    header->waiting.store(random());
    EXPECT_LE((*writer)->Put("four"), 4u);
  }
  munmap(at, 4096);
}

TEST(SharedRing, RejectsUnsealedAndForeignFiles) {
  const int loose = memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_EQ(ftruncate(loose, RingHeader::kBytes), 0);
  EXPECT_FALSE(RingReader::Map(loose).ok());
  ASSERT_EQ(fcntl(loose, F_ADD_SEALS, F_SEAL_SHRINK), 0);
  EXPECT_TRUE(RingReader::Map(loose).ok());
  close(loose);
  const int small = memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_EQ(ftruncate(small, 4096), 0);
  ASSERT_EQ(fcntl(small, F_ADD_SEALS, F_SEAL_SHRINK), 0);
  EXPECT_FALSE(RingReader::Map(small).ok());
  close(small);
  const int zero = open("/dev/zero", O_RDWR | O_CLOEXEC);
  EXPECT_FALSE(RingReader::Map(zero).ok());
  close(zero);
  EXPECT_FALSE(RingReader::Map(-1).ok());
}

TEST(SharedRing, MailboxReturnsFileOfTokenAndKeepsFew) {
  const size_t before = RingFiles();
  {
    const std::string name = SomeName();
    RingMailbox to, from;
    ASSERT_TRUE(to.Open(name).ok());
    ASSERT_TRUE(from.Open("").ok());
    const RingToken first = NewRingToken(), second = NewRingToken();
    int fd = -1;
    const auto writer = RingWriter::Make(&fd);
    ASSERT_TRUE(writer.ok());
    ASSERT_TRUE(from.Send(name, first, fd).ok());
    ASSERT_TRUE(from.Send(name, second, fd).ok());
    EXPECT_EQ(to.Take(NewRingToken()), -1);
    // Two mailboxes, the writer's file, and two files that wait for Take.
    EXPECT_EQ(RingFiles(), before + 5);
    for (const RingToken& token : {second, first}) {
      const int got = to.Take(token);
      EXPECT_TRUE(RingReader::Map(got).ok());
      close(got);
      EXPECT_EQ(to.Take(token), -1);
    }
    // Files that are not taken are kept up to a limit, and sending never
    // blocks.
    for (int i = 0; i < 500; ++i) {
      (void)from.Send(name, NewRingToken(), fd);
      (void)to.Take(first);
    }
    EXPECT_LE(RingFiles(), before + 3 + 64);
    close(fd);
    EXPECT_FALSE(from.Send(SomeName(), first, 0).ok());
    EXPECT_FALSE(from.Send(std::string(200, 'x'), first, 0).ok());
  }
  EXPECT_EQ(RingFiles(), before);
}

TEST(SharedRing, FullMailboxReportsErrorAndRecovers) {
  const std::string name = SomeName();
  RingMailbox to, from;
  ASSERT_TRUE(to.Open(name).ok());
  ASSERT_TRUE(from.Open("").ok());
  int fd = -1;
  const auto writer = RingWriter::Make(&fd);
  ASSERT_TRUE(writer.ok());
  Status s;
  for (int i = 0; i < 100'000 && s.ok(); ++i)
    s = from.Send(name, NewRingToken(), fd);
  EXPECT_EQ(s.code(), StatusCode::kResourceExhausted) << s;
  EXPECT_EQ(to.Take(NewRingToken()), -1);
  EXPECT_TRUE(from.Send(name, NewRingToken(), fd).ok());
  close(fd);
}

TEST(SharedRing, MailboxDropsMessagesWithoutFileOrOfWrongSize) {
  const std::string name = SomeName();
  RingMailbox to;
  ASSERT_TRUE(to.Open(name).ok());
  const int s = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const socklen_t size =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  const RingToken token = NewRingToken();
  for (const size_t bytes : {size_t{0}, size_t{3}, sizeof(token)})
    EXPECT_EQ(sendto(s, token.data(), bytes, 0,
                     reinterpret_cast<sockaddr*>(&address), size),
              static_cast<ssize_t>(bytes));
  EXPECT_EQ(to.Take(token), -1);
  close(s);
}

// One of two tasks in this process that connect as if in separate processes.
struct RingTask {
  explicit RingTask(const std::string& name, bool shared = true) {
    GrpcTransportOptions options;
    options.task = name;
    options.local_shortcut = false;
    options.shared_memory = shared;
    transport = std::make_unique<GrpcTransport>(options);
    EXPECT_TRUE(transport->Start(&handler).ok());
  }
  ~RingTask() { transport->Shutdown(); }
  RecordingHandler handler;
  std::unique_ptr<GrpcTransport> transport;
};

class RingTransport : public testing::Test {
 protected:
  void SetUp() override { mappings_ = RingMappings(); }
  void TearDown() override {
    DisableFailpoints();
    EXPECT_EQ(RingMappings(), mappings_);
  }

  // Sends tensors of all sizes both ways, some in one batch, and checks that
  // they arrive unchanged. Returns the bytes sent through shared memory.
  static int64_t Exchange(RingTask& a, RingTask& b, uint64_t seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937_64 random(seed);
    const PeerId ab = *a.transport->Connect(
        {"/job:w/task:1", b.transport->address(), b.transport->incarnation()});
    EXPECT_TRUE(a.transport->SendControl(ab, 1, "").ok());
    EXPECT_TRUE(b.handler.AwaitControls(1));
    const PeerId ba = *b.transport->Connect(
        {"/job:w/task:0", a.transport->address(), a.transport->incarnation()});
    std::vector<Tensor> tensors;
    for (int i = 0; i < 30; ++i) {
      const uint64_t most = i % 3 == 0 ? 3'000'000 : i % 3 == 1 ? 70'000 : 100;
      Tensor t(DType::kInt32,
               Shape({1 + static_cast<int64_t>(random() % most)}));
      for (int32_t& v : t.flat<int32_t>()) v = static_cast<int32_t>(random());
      tensors.push_back(std::move(t));
    }
    for (size_t i = 0; i < tensors.size(); i += 2) {
      for (const bool back : {false, true}) {
        std::vector<TokenMessage> batch;
        for (size_t k = i; k < i + 2; ++k)
          batch.push_back(TokenOf(static_cast<uint32_t>(k), tensors[k]));
        EXPECT_TRUE((back ? b : a)
                        .transport->SendTokens(back ? ba : ab, 1, 0, batch)
                        .ok());
      }
    }
    for (RingTask* t : {&a, &b}) {
      EXPECT_TRUE(t->handler.AwaitTokens(tensors.size()));
      for (const auto& got : t->handler.tokens)
        EXPECT_TRUE(got.token.value.Identical(tensors[got.token.edge]))
            << got.token.edge;
      EXPECT_EQ(t->handler.losses(), 0u);
    }
    return a.transport->stats().bytes_shared +
           b.transport->stats().bytes_shared;
  }

 private:
  size_t mappings_ = 0;
};

TEST_F(RingTransport, LargeTensorsPassThroughSharedMemoryUnchanged) {
  RingTask a("/job:w/task:0"), b("/job:w/task:1");
  EXPECT_GT(Exchange(a, b, 1), 0);
  const TransportStats sa = a.transport->stats(), sb = b.transport->stats();
  EXPECT_LE(sa.bytes_shared, sa.bytes_sent);
  EXPECT_GE(sa.bytes_received, sb.bytes_shared);
}

TEST_F(RingTransport, RefusedRingFallsBackToStream) {
  uint64_t seed = 10;
  {
    RingTask a("/job:w/task:0", false), b("/job:w/task:1");
    EXPECT_EQ(Exchange(a, b, ++seed), 0);
  }
  {
    RingTask a("/job:w/task:0"), b("/job:w/task:1", false);
    EXPECT_EQ(Exchange(a, b, ++seed), 0);
  }
  for (const char* failpoint : {"grpc.offer_memory", "grpc.accept_memory"}) {
    for (const char* how : {"drop", "error"}) {
      ASSERT_TRUE(EnableFailpoints(absl::StrCat(failpoint, "=", how)).ok());
      RingTask a("/job:w/task:0"), b("/job:w/task:1");
      EXPECT_EQ(Exchange(a, b, ++seed), 0);
      EXPECT_GT(FailpointHits(failpoint), 0);
      DisableFailpoints();
    }
  }
}

TEST_F(RingTransport, PeerLostWhileRingIsFullFreesMemory) {
  const size_t before = RingMappings();
  RingTask a("/job:w/task:0");
  auto b = std::make_unique<RingTask>("/job:w/task:1");
  // (Reads slowly, so that the ring is full.)
  ASSERT_TRUE(EnableFailpoints("grpc.read=delay(2)").ok());
  const PeerId to = *a.transport->Connect(
      {"/job:w/task:1", b->transport->address(), b->transport->incarnation()});
  TokenMessage m = TokenOf(1, Tensor(DType::kFloat, Shape({50'000'000})));
  ASSERT_TRUE(a.transport->SendTokens(to, 1, 0, {&m, 1}).ok());
  ASSERT_TRUE(BecomesTrue(
      [&] { return a.transport->stats().bytes_shared > int64_t{8} << 20; }));
  b.reset();
  ASSERT_TRUE(a.handler.AwaitLost(1));
  EXPECT_TRUE(BecomesTrue([&] { return RingMappings() == before; }));
}

}  // namespace
}  // namespace sluice
