// Files, clocks, threads and log lines of the C API.
#include "tensorflow/c/env.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "tensorflow/c/logging.h"

namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Levels are read from the environment once: before the first line.
const bool kDefaultLevels = [] {
  unsetenv("TF_CPP_MIN_LOG_LEVEL");
  unsetenv("TF_CPP_MAX_VLOG_LEVEL");
  return true;
}();

class CEnvTest : public testing::Test {
 protected:
  CEnvTest() {
    std::string folder = testing::TempDir() + "/c_env_XXXXXX";
    folder_ = mkdtemp(folder.data());
  }
  ~CEnvTest() override {
    std::filesystem::remove_all(folder_);
    TF_DeleteStatus(status_);
  }
  TF_Code Code() const { return TF_GetCode(status_); }
  std::string Message() const { return TF_Message(status_); }
  std::string In(const std::string& name) const { return folder_ + "/" + name; }
  void Write(const std::string& path, const std::string& text) {
    TF_WritableFileHandle* file = nullptr;
    TF_NewWritableFile(path.c_str(), &file, status_);
    ASSERT_EQ(Code(), TF_OK) << Message();
    TF_AppendWritableFile(file, text.data(), text.size(), status_);
    EXPECT_EQ(Code(), TF_OK) << Message();
    TF_CloseWritableFile(file, status_);
    EXPECT_EQ(Code(), TF_OK) << Message();
  }
  std::vector<std::string> Children(const std::string& path) {
    return Strings(TF_GetChildren(path.c_str(), status_));
  }
  static std::vector<std::string> Strings(TF_StringStream* list) {
    std::vector<std::string> all;
    const char* next = nullptr;
    while (TF_StringStreamNext(list, &next)) all.push_back(next);
    EXPECT_EQ(next, nullptr);
    TF_StringStreamDone(list);
    return all;
  }
  // The size of a file; -1 if there is an error.
  int64_t Size(const std::string& path) {
    TF_FileStatistics stats = {-1, 0, false};
    TF_FileStat(path.c_str(), &stats, status_);
    return stats.length;
  }

  TF_Status* status_ = TF_NewStatus();
  std::string folder_;
};

TEST_F(CEnvTest, FoldersAndFilesAreMadeListedAndDeleted) {
  const std::string folder = In("folder");
  TF_CreateDir(folder.c_str(), status_);
  ASSERT_EQ(Code(), TF_OK) << Message();
  Write(folder + "/b", "Hello, world!\n");
  Write("file://" + folder + "/a", "");
  EXPECT_THAT(Children(folder), ElementsAre("a", "b"));

  TF_FileStatistics stats;
  TF_FileStat((folder + "/b").c_str(), &stats, status_);
  ASSERT_EQ(Code(), TF_OK) << Message();
  EXPECT_EQ(stats.length, 14);
  EXPECT_FALSE(stats.is_directory);
  EXPECT_GT(stats.mtime_nsec, 946684800 * int64_t{1000000000});
  TF_FileStat(folder.c_str(), &stats, status_);
  EXPECT_TRUE(stats.is_directory);

  TF_DeleteDir(folder.c_str(), status_);
  EXPECT_EQ(Code(), TF_FAILED_PRECONDITION) << "not empty";
  for (const char* name : {"/a", "/b"}) {
    TF_DeleteFile((folder + name).c_str(), status_);
    EXPECT_EQ(Code(), TF_OK) << Message();
  }
  TF_DeleteDir(folder.c_str(), status_);
  EXPECT_EQ(Code(), TF_OK) << Message();
  EXPECT_THAT(Children(folder_), ElementsAre());
}

TEST_F(CEnvTest, ErrorsHaveTheCodeOfTheSystemAndNameThePath) {
  const std::string missing = In("missing");
  TF_CreateDir(folder_.c_str(), status_);
  EXPECT_EQ(Code(), TF_ALREADY_EXISTS);
  EXPECT_THAT(Message(), HasSubstr(folder_));
  TF_CreateDir((missing + "/deeper").c_str(), status_);
  EXPECT_EQ(Code(), TF_NOT_FOUND);
  EXPECT_THAT(Message(), HasSubstr(missing));
  TF_DeleteDir(missing.c_str(), status_);
  EXPECT_EQ(Code(), TF_NOT_FOUND);
  TF_DeleteFile(missing.c_str(), status_);
  EXPECT_EQ(Code(), TF_NOT_FOUND);
  EXPECT_EQ(Size(missing), -1);
  EXPECT_EQ(Code(), TF_NOT_FOUND);
  EXPECT_THAT(Children(missing), ElementsAre());
  EXPECT_EQ(Code(), TF_NOT_FOUND);
  TF_WritableFileHandle* file = nullptr;
  TF_NewWritableFile((missing + "/deeper").c_str(), &file, status_);
  EXPECT_EQ(Code(), TF_NOT_FOUND);
  EXPECT_EQ(file, nullptr);
}

TEST_F(CEnvTest, DeletingATreeDoesNotFollowLinks) {
  Write(In("kept"), "x");
  for (const char* name : {"tree", "tree/a", "tree/a/b"})
    TF_CreateDir(In(name).c_str(), status_);
  Write(In("tree/a/file"), "x");
  ASSERT_EQ(symlink(folder_.c_str(), In("tree/link").c_str()), 0);
  ASSERT_EQ(symlink("nothing", In("tree/a/dangling").c_str()), 0);
  int64_t files = -1, folders = -1;
  TF_DeleteRecursively(In("tree").c_str(), &files, &folders, status_);
  EXPECT_EQ(Code(), TF_OK) << Message();
  EXPECT_EQ(files, 0);
  EXPECT_EQ(folders, 0);
  EXPECT_THAT(Children(folder_), ElementsAre("kept"));
}

TEST_F(CEnvTest, DeletingATreeCountsWhatIsLeft) {
  int64_t files = -1, folders = -1;
  TF_DeleteRecursively(In("missing").c_str(), &files, &folders, status_);
  EXPECT_EQ(Code(), TF_NOT_FOUND);
  EXPECT_EQ(files, 0);
  EXPECT_EQ(folders, 1);
  // The system deletes no folder under the name ".".
  Write(In("file"), "x");
  TF_DeleteRecursively(In(".").c_str(), &files, &folders, status_);
  EXPECT_EQ(Code(), TF_INVALID_ARGUMENT) << Message();
  EXPECT_EQ(files, 0);
  EXPECT_EQ(folders, 1);
  EXPECT_THAT(Children(folder_), ElementsAre());
  TF_DeleteRecursively(In("missing").c_str(), nullptr, nullptr, nullptr);
}

TEST_F(CEnvTest, WritesReachTheFileWhenTheyAreFlushed) {
  const std::string path = In("file");
  Write(path, "longer than what comes next");
  TF_WritableFileHandle* file = nullptr;
  TF_NewWritableFile(path.c_str(), &file, status_);
  ASSERT_EQ(Code(), TF_OK) << Message();
  EXPECT_EQ(Size(path), 0);
  TF_AppendWritableFile(file, "ab", 2, status_);
  TF_FlushWritableFile(file, status_);
  EXPECT_EQ(Code(), TF_OK) << Message();
  EXPECT_EQ(Size(path), 2);
  TF_AppendWritableFile(file, "cde", 3, status_);
  TF_AppendWritableFile(file, nullptr, 0, status_);
  EXPECT_EQ(Code(), TF_OK) << Message();
  TF_SyncWritableFile(file, status_);
  EXPECT_EQ(Code(), TF_OK) << Message();
  EXPECT_EQ(Size(path), 5);
  TF_CloseWritableFile(file, status_);
  EXPECT_EQ(Code(), TF_OK) << Message();
}

TEST_F(CEnvTest, FullDiskIsAnError) {
  TF_WritableFileHandle* file = nullptr;
  TF_NewWritableFile("/dev/full", &file, status_);
  ASSERT_EQ(Code(), TF_OK) << Message();
  TF_AppendWritableFile(file, "x", 1, status_);
  EXPECT_EQ(Code(), TF_OK) << "not written yet";
  TF_FlushWritableFile(file, status_);
  EXPECT_EQ(Code(), TF_RESOURCE_EXHAUSTED) << Message();
  EXPECT_THAT(Message(), HasSubstr("/dev/full"));
  TF_CloseWritableFile(file, status_);
}

TEST_F(CEnvTest, NullArgumentsAreErrors) {
  TF_WritableFileHandle* file = nullptr;
  TF_FileStatistics stats;
  const std::vector<void (*)(TF_Status*)> calls = {
      [](TF_Status* s) { TF_CreateDir(nullptr, s); },
      [](TF_Status* s) { TF_DeleteDir(nullptr, s); },
      [](TF_Status* s) { TF_DeleteRecursively(nullptr, nullptr, nullptr, s); },
      [](TF_Status* s) { TF_DeleteFile(nullptr, s); },
      [](TF_Status* s) { TF_FileStat("/", nullptr, s); },
      [](TF_Status* s) { TF_NewWritableFile("/dev/null", nullptr, s); },
      [](TF_Status* s) { TF_AppendWritableFile(nullptr, "x", 1, s); },
      [](TF_Status* s) { TF_FlushWritableFile(nullptr, s); },
      [](TF_Status* s) { TF_SyncWritableFile(nullptr, s); },
      [](TF_Status* s) { TF_CloseWritableFile(nullptr, s); },
      [](TF_Status* s) { TF_StringStreamDone(TF_GetChildren(nullptr, s)); },
  };
  for (size_t i = 0; i < calls.size(); ++i) {
    TF_SetStatus(status_, TF_OK, "");
    calls[i](status_);
    EXPECT_EQ(Code(), TF_INVALID_ARGUMENT) << i;
    calls[i](nullptr);
  }
  TF_FileStat(nullptr, &stats, status_);
  EXPECT_EQ(Code(), TF_INVALID_ARGUMENT);
  TF_NewWritableFile("/dev/null", &file, status_);
  ASSERT_EQ(Code(), TF_OK);
  TF_AppendWritableFile(file, nullptr, 1, status_);
  EXPECT_EQ(Code(), TF_INVALID_ARGUMENT);
  TF_CloseWritableFile(file, nullptr);
  EXPECT_FALSE(TF_StringStreamNext(nullptr, nullptr));
  TF_StringStreamDone(nullptr);
  TF_DefaultThreadOptions(nullptr);
  EXPECT_EQ(TF_StartThread(nullptr, "none", nullptr, nullptr), nullptr);
  TF_JoinThread(nullptr);
}

TEST_F(CEnvTest, TemporaryFoldersExist) {
  const std::vector<std::string> all = Strings(TF_GetLocalTempDirectories());
  ASSERT_FALSE(all.empty());
  for (const std::string& folder : all)
    EXPECT_TRUE(std::filesystem::is_directory(folder)) << folder;
}

TEST_F(CEnvTest, ClocksAgree) {
  const uint64_t seconds = TF_NowSeconds();
  const uint64_t micros = TF_NowMicros();
  const uint64_t nanos = TF_NowNanos();
  EXPECT_GT(seconds, 946684800u);  // The year 2000.
  EXPECT_GE(micros / 1000000, seconds);
  EXPECT_GE(nanos / 1000, micros);
  EXPECT_LT(nanos / 1000000000, seconds + 600);
}

struct ThreadResult {
  std::string name;
  size_t stack = 0;
};

void Look(void* param) {
  auto* result = static_cast<ThreadResult*>(param);
  char name[16];
  pthread_getname_np(pthread_self(), name, sizeof(name));
  result->name = name;
  pthread_attr_t attributes;
  pthread_getattr_np(pthread_self(), &attributes);
  pthread_attr_getstacksize(&attributes, &result->stack);
  pthread_attr_destroy(&attributes);
}

TEST_F(CEnvTest, ThreadsHaveTheirNamesAndSizes) {
  TF_ThreadOptions options;
  TF_DefaultThreadOptions(&options);
  EXPECT_EQ(options.stack_size, 0u);
  EXPECT_EQ(options.guard_size, 0u);
  EXPECT_EQ(options.numa_node, -1);
  options.stack_size = 3 << 20;
  options.guard_size = 1 << 16;
  ThreadResult result;
  TF_JoinThread(TF_StartThread(&options, "a name that is long", Look, &result));
  EXPECT_EQ(result.name, "a name that is ");
  EXPECT_GE(result.stack, size_t{3 << 20});
  EXPECT_LT(result.stack, size_t{4 << 20});

  TF_JoinThread(TF_StartThread(nullptr, nullptr, Look, &result));
  EXPECT_EQ(result.name, "");
  options.stack_size = 1;  // Less than the system allows.
  EXPECT_EQ(TF_StartThread(&options, "small", Look, &result), nullptr);
}

TEST_F(CEnvTest, LogLinesHaveTheirLevel) {
  ASSERT_TRUE(kDefaultLevels);
  testing::internal::CaptureStderr();
  TF_Log(TF_INFO, "%s %d", "one", 1);
  TF_Log(TF_WARNING, "two");
  TF_Log(TF_ERROR, "%s", std::string(5000, 'x').c_str());
  TF_Log(static_cast<TF_LogLevel>(77), "four");
  TF_Log(TF_INFO, nullptr);
  TF_VLog(0, "five");
  TF_VLog(1, "not written");
  TF_VLog(0, nullptr);
  TF_DVLog(1, "not written");
  TF_DVLog(0, nullptr);
  const std::string time = "[0-9-]+ [0-9:]+\\.[0-9]{6}: ";
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::MatchesRegex(time + "I one 1\n" + time + "W two\n" +
                                    time + "E x{5000}\n" + time + "E four\n" +
                                    time + "I five\n"));
}

TEST_F(CEnvTest, LogLevelsComeFromTheEnvironment) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(
      {
        setenv("TF_CPP_MIN_LOG_LEVEL", "2", 1);
        setenv("TF_CPP_MAX_VLOG_LEVEL", "3", 1);
        TF_Log(TF_WARNING, "quiet");
        TF_Log(TF_ERROR, "loud");
        TF_VLog(3, "verbose");
        TF_VLog(4, "too verbose");
        std::exit(0);
      },
      testing::ExitedWithCode(0), "^[^\n]*: E loud\n[^\n]*: I verbose\n$");
  EXPECT_EXIT(TF_Log(TF_FATAL, "the end"), testing::KilledBySignal(SIGABRT),
              ": F the end\n");
}

}  // namespace
