#include "tools/sluice/launch_spec.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "io/file.h"

namespace sluice::cli {
namespace {

using LaunchJson = nlohmann::ordered_json;

constexpr int kMaxTasks = 10'000;

bool IsName(const std::string& s, const char* more) {
  return !s.empty() && std::isalpha(static_cast<unsigned char>(s[0])) != 0 &&
         std::all_of(s.begin(), s.end(), [more](char c) {
           return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
                  std::string_view(more).find(c) != std::string_view::npos;
         });
}

// (Values are quoted where a shell reads them; names cannot be.)
bool IsVariableName(const std::string& s) {
  return IsName(s, "_") || (s.starts_with('_') && IsName("x" + s, "_"));
}

std::string ShownJson(const LaunchJson& value) {
  std::string text =
      value.dump(-1, ' ', false, LaunchJson::error_handler_t::replace);
  if (text.size() > 100) text = text.substr(0, 100) + "...";
  return text;
}

Status ReadWords(const LaunchJson& value, const std::string& what,
                 Words* words) {
  if (!value.is_array())
    return InvalidArgument("launch: expected a list of strings as ", what,
                           ", got ", ShownJson(value));
  for (const LaunchJson& word : value) {
    if (!word.is_string() ||
        word.get<std::string>().find('\0') != std::string::npos)
      return InvalidArgument("launch: expected a list of strings as ", what,
                             ", got ", ShownJson(word), " in it");
    words->push_back(word.get<std::string>());
  }
  return OkStatus();
}

Status CheckJob(const LaunchJob& job) {
  if (!IsName(job.name, "_"))
    return InvalidArgument(
        "launch: expected letters, digits and '_' in the name of a job, got '",
        job.name, "'");
  if (job.count < 1 || job.count > kMaxTasks)
    return InvalidArgument("launch: expected 1 to ", kMaxTasks,
                           " tasks of job '", job.name, "', got ", job.count);
  return OkStatus();
}

Status AddJob(LaunchJob job, LaunchSpec* spec) {
  SLUICE_RETURN_IF_ERROR(CheckJob(job));
  for (const LaunchJob& other : spec->jobs)
    if (other.name == job.name)
      return InvalidArgument("launch: expected each job once, got '", job.name,
                             "' again");
  spec->jobs.push_back(std::move(job));
  return OkStatus();
}

Status ReadJob(const std::string& name, const LaunchJson& value,
               LaunchSpec* spec) {
  LaunchJob job;
  job.name = name;
  const std::string what = "job '" + name + "'";
  const auto read_count = [&](const LaunchJson& count) {
    // (As a double: it may be beyond any integer type.)
    if (!count.is_number_integer() || count.get<double>() < 1 ||
        count.get<double>() > kMaxTasks)
      return InvalidArgument("launch: expected 1 to ", kMaxTasks, " tasks of ",
                             what, ", got ", ShownJson(count));
    job.count = count.get<int>();
    return OkStatus();
  };
  if (!value.is_object()) {
    SLUICE_RETURN_IF_ERROR(read_count(value));
    return AddJob(std::move(job), spec);
  }
  for (const auto& [key, of_key] : value.items()) {
    if (key == "count")
      SLUICE_RETURN_IF_ERROR(read_count(of_key));
    else if (key == "flags")
      SLUICE_RETURN_IF_ERROR(ReadWords(of_key, "flags of " + what, &job.flags));
    else if (key == "command")
      SLUICE_RETURN_IF_ERROR(
          ReadWords(of_key, "command of " + what, &job.command));
    else
      return InvalidArgument("launch: expected count, flags and command in ",
                             what, ", got '", key, "'");
  }
  if (!job.flags.empty() && !job.command.empty())
    return InvalidArgument(
        "launch: expected flags of `sluice worker` or a "
        "command of ",
        what, ", got both");
  return AddJob(std::move(job), spec);
}

Status ReadJson(const LaunchJson& json, LaunchSpec* spec) {
  if (!json.is_object())
    return InvalidArgument("launch: expected an object {\"jobs\": ...}, got ",
                           ShownJson(json));
  for (const auto& [key, value] : json.items()) {
    if (key == "name" && value.is_string()) {
      spec->name = value.get<std::string>();
    } else if (key == "jobs" && value.is_object()) {
      for (const auto& [name, job] : value.items())
        SLUICE_RETURN_IF_ERROR(ReadJob(name, job, spec));
    } else if (key == "flags") {
      SLUICE_RETURN_IF_ERROR(ReadWords(value, "flags", &spec->flags));
    } else if (key == "program") {
      SLUICE_RETURN_IF_ERROR(ReadWords(value, "program", &spec->program));
    } else if (key == "environment" && value.is_object()) {
      for (const auto& [name, text] : value.items()) {
        if (!IsVariableName(name))
          return InvalidArgument(
              "launch: expected letters, digits and '_' in the name of a "
              "variable of the environment, got '",
              name, "'");
        if (!text.is_string() ||
            text.get<std::string>().find('\0') != std::string::npos)
          return InvalidArgument("launch: expected a string as variable '",
                                 name, "', got ", ShownJson(text));
        spec->environment.emplace_back(name, text.get<std::string>());
      }
    } else {
      return InvalidArgument(
          "launch: expected name, jobs, flags, environment and program, got '",
          key, "': ", ShownJson(value));
    }
  }
  return OkStatus();
}

}  // namespace

Result<LaunchSpec> LaunchSpec::Read(const std::string& text) {
  LaunchSpec spec;
  const std::vector<std::string> parts = absl::StrSplit(text, ',');
  const bool counts =
      !text.empty() &&
      std::all_of(parts.begin(), parts.end(), [](const std::string& part) {
        const size_t equals = part.find('=');
        int count = 0;
        return equals != std::string::npos &&
               IsName(part.substr(0, equals), "_") &&
               absl::SimpleAtoi(part.substr(equals + 1), &count);
      });
  if (counts) {
    for (const std::string& part : parts) {
      LaunchJob job;
      const size_t equals = part.find('=');
      job.name = part.substr(0, equals);
      (void)absl::SimpleAtoi(part.substr(equals + 1), &job.count);
      SLUICE_RETURN_IF_ERROR(AddJob(std::move(job), &spec));
    }
  } else {
    std::string content = text;
    if (text.find('{') == std::string::npos) {
      Result<std::string> file = ReadFile(text);
      if (!file.ok())
        return Annotate(file.status(),
                        "launch: expected a file, JSON or JOB=COUNT,...");
      content = *std::move(file);
    }
    const LaunchJson json =
        LaunchJson::parse(content, nullptr, /*allow_exceptions=*/false);
    if (json.is_discarded())
      return InvalidArgument("launch: expected JSON, got '",
                             content.substr(0, 100), "'");
    SLUICE_RETURN_IF_ERROR(ReadJson(json, &spec));
  }
  if (!IsName(spec.name, "-") || spec.name.size() > 40 ||
      spec.name.ends_with('-'))
    return InvalidArgument(
        "launch: expected letters, digits and '-' as name, at most 40, got '",
        spec.name, "'");
  if (spec.jobs.empty())
    return InvalidArgument("launch: expected at least one job, got none");
  if (spec.num_tasks() > kMaxTasks)
    return InvalidArgument("launch: expected at most ", kMaxTasks,
                           " tasks, got ", spec.num_tasks());
  return spec;
}

int LaunchSpec::num_tasks() const {
  int sum = 0;
  for (const LaunchJob& job : jobs) sum += job.count;
  return sum;
}

bool LaunchSpec::HasCommands() const {
  return std::any_of(jobs.begin(), jobs.end(),
                     [](const LaunchJob& j) { return !j.command.empty(); });
}

std::string LaunchSpec::Counts() const {
  return absl::StrJoin(jobs, "&", [](std::string* out, const LaunchJob& j) {
    absl::StrAppend(out, j.name, "=", j.count);
  });
}

std::string LaunchSpec::Flag(const LaunchJob& job,
                             const std::string& flag) const {
  std::string value;
  for (const Words* words : {&flags, &job.flags})
    for (size_t i = 0; i < words->size(); ++i) {
      const std::string& word = (*words)[i];
      if (word == flag && i + 1 < words->size()) value = (*words)[i + 1];
      if (word.starts_with(flag + "=")) value = word.substr(flag.size() + 1);
    }
  return value;
}

std::string LaunchTask::name() const {
  return absl::StrCat(job->name, "/", number);
}

Result<std::vector<LaunchTask>> PlaceTasks(const LaunchSpec& spec,
                                           const Words& hosts, int first_port) {
  if (hosts.empty())
    return InvalidArgument("--hosts: expected at least one host, got none");
  std::vector<std::pair<std::string, int>> slots;
  const int all = spec.num_tasks();
  const int count = static_cast<int>(hosts.size());
  for (int i = 0; i < count; ++i) {
    const std::string& text = hosts[static_cast<size_t>(i)];
    const size_t colon = text.rfind(':');
    int room = all / count + (i < all % count ? 1 : 0);
    if (colon != std::string::npos &&
        (!absl::SimpleAtoi(text.substr(colon + 1), &room) || room < 1))
      return InvalidArgument("--hosts: expected HOST or HOST:COUNT, got '",
                             text, "'");
    const std::string host = text.substr(0, colon);
    // (It must not be read as an option of ssh.)
    if (host.empty() || host[0] == '-' ||
        host.find_first_of(" \t\n'\"$`\\;&|<>") != std::string::npos)
      return InvalidArgument("--hosts: expected the name of a host, got '",
                             host, "'");
    slots.emplace_back(host, room);
  }
  std::vector<LaunchTask> tasks;
  std::map<std::string, int> used;  // By host, which may be given repeatedly.
  size_t at = 0;
  int left = slots[0].second;
  for (const LaunchJob& job : spec.jobs)
    for (int i = 0; i < job.count; ++i) {
      while (left == 0 && at + 1 < slots.size()) left = slots[++at].second;
      if (left == 0)
        return InvalidArgument("--hosts: expected room for ", all,
                               " tasks, got ", tasks.size());
      --left;
      const std::string& given = slots[at].first;
      // ("user@host" is for ssh.)
      const std::string host = given.substr(given.rfind('@') + 1);
      const int port = first_port + used[host]++;
      if (port > 65535)
        return InvalidArgument("--port: expected ports up to 65535, got ",
                               port);
      tasks.push_back({&job, i, given, absl::StrCat(host, ":", port)});
    }
  return tasks;
}

std::string ClusterJson(const std::vector<LaunchTask>& tasks) {
  LaunchJson json;
  for (const LaunchTask& t : tasks) json[t.job->name].push_back(t.address);
  return json.dump();
}

std::string TargetOf(const std::vector<LaunchTask>& tasks) {
  for (const char* job : {"chief", "master", "worker"})
    for (const LaunchTask& t : tasks)
      if (t.job->name == job && t.number == 0) return "grpc://" + t.address;
  return "grpc://" + tasks.front().address;
}

Words TaskCommand(const LaunchSpec& spec, const LaunchJob& job,
                  const std::string& sluice, const std::string& cluster,
                  const LaunchTask* task) {
  if (!job.command.empty()) return job.command;
  Words words = {sluice, "worker", "--cluster", cluster};
  if (task != nullptr)
    words.insert(words.end(),
                 {"--job", job.name, "--task", absl::StrCat(task->number)});
  words.insert(words.end(), spec.flags.begin(), spec.flags.end());
  words.insert(words.end(), job.flags.begin(), job.flags.end());
  return words;
}

std::string ShellQuoted(const std::string& word) {
  const bool plain =
      !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
               std::string_view("_-./:=,+@%").find(c) != std::string_view::npos;
      });
  if (plain) return word;
  std::string quoted = "'";
  for (const char c : word) {
    if (c == '\'')
      quoted += "'\\''";
    else
      quoted += c;
  }
  return quoted + "'";
}

std::string ShellLine(const Words& words) {
  return absl::StrJoin(words, " ", [](std::string* out, const std::string& w) {
    *out += ShellQuoted(w);
  });
}

}  // namespace sluice::cli
