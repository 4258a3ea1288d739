#include "tools/board/server.h"

#include <arpa/inet.h>
#include <httplib.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "io/file.h"
#include "tools/board/answers.h"
#include "tools/board/event_log.h"
#include "tools/board/page_files.h"

namespace sluice::board {
namespace {

using httplib::Request;
using httplib::Response;
using nlohmann::json;

// The plot library's files that the page uses.
constexpr const char* kLibraryFiles[] = {"dygraph.min.js", "dygraph.min.css"};

int HttpStatus(const Status& s) {
  switch (s.code()) {
    case StatusCode::kNotFound:
      return 404;
    case StatusCode::kInvalidArgument:
      return 400;
    default:
      return 500;
  }
}

void AnswerJson(const json& j, Response* response) {
  // (Names that are not UTF-8 must not end the answer.)
  response->set_content(j.dump(-1, ' ', false, json::error_handler_t::replace),
                        "application/json");
  response->set_header("Cache-Control", "no-store");
}

void AnswerError(int status, const std::string& message, Response* response) {
  AnswerJson({{"error", message}}, response);
  response->status = status;
}

void Answer(const Result<json>& j, Response* response) {
  if (j.ok()) return AnswerJson(*j, response);
  AnswerError(HttpStatus(j.status()), std::string(j.status().message()),
              response);
}

Result<std::string> Parameter(const Request& request, const char* name) {
  if (request.has_param(name)) return request.get_param_value(name);
  return InvalidArgument("parameter '", name, "': expected one, got none");
}

Result<size_t> Index(const Request& request, const char* name) {
  SLUICE_ASSIGN_OR_RETURN(const std::string text, Parameter(request, name));
  uint32_t value = 0;
  if (!absl::SimpleAtoi(text, &value))
    return InvalidArgument("parameter '", name,
                           "': expected a number from 0, got '", text, "'");
  return size_t{value};
}

// The run and the tag that a request names.
struct RunAndTag {
  std::string run, tag;
};
Result<RunAndTag> ReadRunAndTag(const Request& request) {
  RunAndTag r;
  SLUICE_ASSIGN_OR_RETURN(r.run, Parameter(request, "run"));
  SLUICE_ASSIGN_OR_RETURN(r.tag, Parameter(request, "tag"));
  return r;
}
Result<TagKind> ReadKind(const Request& request) {
  SLUICE_ASSIGN_OR_RETURN(const std::string kind, Parameter(request, "kind"));
  return ParseTagKind(kind);
}

// (A name such as "127.example" may resolve to any address.)
bool IsLoopback(const std::string& host) {
  in_addr v4;
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1)
    return ntohl(v4.s_addr) >> 24 == 127;
  return host == "localhost" || host == "::1";
}

// "host" of "host:port" and of "[host]:port".
std::string HostOf(const std::string& header) {
  if (header.starts_with("[")) return header.substr(1, header.find(']') - 1);
  return header.substr(0, header.find(':'));
}

}  // namespace

class Server::Impl {
 public:
  Impl(const std::string& folder, const ServerOptions& options)
      : options_(options), log_(folder) {}

  ~Impl() {
    {
      std::lock_guard<std::mutex> lock(mu_);
      ending_ = true;
    }
    changed_.notify_all();
    log_.Stop();
    http_.stop();
    if (serving_.joinable()) serving_.join();
    if (reading_.joinable()) reading_.join();
  }

  Status Start() {
    // (By default two servers could listen at the same port.)
    http_.set_socket_options([](socket_t s) {
      const int yes = 1;
      setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    });
    http_.set_tcp_nodelay(true);
    http_.set_keep_alive_timeout(2);
    Route();
    if (options_.port == 0) {
      port_ = http_.bind_to_any_port(options_.host);
    } else if (http_.bind_to_port(options_.host, options_.port)) {
      port_ = options_.port;
    } else if (httplib::Server().bind_to_any_port(options_.host) >= 0) {
      return FailedPrecondition("port: expected a free port of ", options_.host,
                                ", got ", options_.port,
                                " (port 0 is any free one)");
    }
    if (port_ < 0)
      return InvalidArgument("host: expected an address of this machine, got '",
                             options_.host, "'");
    serving_ = std::thread([this] { http_.listen_after_bind(); });
    // (A stop before it listens would be lost.)
    while (!http_.is_running()) std::this_thread::yield();
    reading_ = std::thread([this] { Read(); });
    return OkStatus();
  }

  int port() const { return port_; }
  const std::string& host() const { return options_.host; }
  EventLog& log() { return log_; }

  void Wait() {
    std::unique_lock<std::mutex> lock(mu_);
    changed_.wait(lock, [this] { return ending_; });
  }

 private:
  // The reading thread.
  void Read() {
    using Clock = std::chrono::steady_clock;
    const std::chrono::milliseconds least(options_.refresh_ms);
    std::unique_lock<std::mutex> lock(mu_);
    while (!ending_) {
      lock.unlock();
      const Clock::time_point begin = Clock::now();
      log_.Refresh();
      // (A look at a huge tree of folders must not keep the machine busy.)
      const Clock::duration pause =
          std::max<Clock::duration>(least, 4 * (Clock::now() - begin));
      lock.lock();
      changed_.wait_for(lock, pause, [this] { return ending_; });
    }
  }

  bool IsForUs(const Request& request) const {
    if (!IsLoopback(options_.host)) return true;
    const std::string host = HostOf(request.get_header_value("Host"));
    return host.empty() || IsLoopback(host);
  }

  void Route() {
    http_.set_pre_routing_handler([this](const Request& q, Response& r) {
      r.set_header("X-Content-Type-Options", "nosniff");
      r.set_header("Content-Security-Policy",
                   "default-src 'self'; style-src 'self' 'unsafe-inline'; "
                   "img-src 'self' data:; base-uri 'none'; "
                   "frame-ancestors 'none'");
      if (q.method != "GET" && q.method != "HEAD") {
        AnswerError(405, "method: expected GET, got " + q.method, &r);
      } else if (!IsForUs(q)) {
        AnswerError(403,
                    "host: expected this machine's, got '" +
                        q.get_header_value("Host") + "'",
                    &r);
      } else {
        return httplib::Server::HandlerResponse::Unhandled;
      }
      return httplib::Server::HandlerResponse::Handled;
    });
    http_.set_error_handler([](const Request& q, Response& r) {
      if (r.body.empty())
        AnswerError(r.status,
                    "path: expected a page of the board, got '" + q.path + "'",
                    &r);
    });
    http_.set_exception_handler(
        [](const Request&, Response& r, std::exception_ptr e) {
          std::string what = "unknown exception";
          try {
            std::rethrow_exception(e);
          } catch (const std::exception& known) {
            what = known.what();
          } catch (...) {
          }
          AnswerError(500, what, &r);
        });
    for (const PageFile& file : PageFiles()) {
      const auto answer = [&file](const Request&, Response& r) {
        r.set_content(file.text, file.size, file.type);
        r.set_header("Cache-Control", "no-cache");
      };
      http_.Get(absl::StrCat("/page/", file.name), answer);
      if (std::string_view(file.name) == "index.html") http_.Get("/", answer);
    }
    for (const std::string name : kLibraryFiles)
      http_.Get("/library/" + name, [this, name](const Request&, Response& r) {
        const Result<std::string> text =
            ReadFile(absl::StrCat(options_.plot_library, "/", name));
        if (!text.ok())
          return AnswerError(404,
                             absl::StrCat(text.status().message(),
                                          "; install Debian's libjs-dygraphs"),
                             &r);
        r.set_content(*text,
                      name.ends_with(".js") ? "text/javascript" : "text/css");
      });
    http_.Get("/api/state", [this](const Request& q, Response& r) {
      uint64_t seen = 0;
      if (q.has_param("version") &&
          !absl::SimpleAtoi(q.get_param_value("version"), &seen))
        return AnswerError(400,
                           "parameter 'version': expected a number, got '" +
                               q.get_param_value("version") + "'",
                           &r);
      const uint64_t now = log_.version();
      AnswerJson(seen == now ? json{{"version", now}} : StateJson(log_), &r);
    });
    http_.Get("/api/scalars", [this](const Request& q, Response& r) {
      const Result<std::string> tag = Parameter(q, "tag");
      if (!tag.ok()) return Answer(tag.status(), &r);
      std::vector<std::string> runs;
      for (size_t i = 0; i < q.get_param_value_count("run"); ++i)
        runs.push_back(q.get_param_value("run", i));
      Answer(ScalarsJson(log_, *tag, runs), &r);
    });
    OfTag("/api/histograms", [this](const Request&, const RunAndTag& of) {
      return HistogramsJson(log_, of.run, of.tag);
    });
    OfTag("/api/values",
          [this](const Request& q, const RunAndTag& of) -> Result<json> {
            SLUICE_ASSIGN_OR_RETURN(const TagKind kind, ReadKind(q));
            return ValuesJson(log_, kind, of.run, of.tag);
          });
    OfTag("/api/text", [this](const Request&, const RunAndTag& of) {
      return TextJson(log_, of.run, of.tag);
    });
    OfTag("/api/projection",
          [this](const Request& q, const RunAndTag& of) -> Result<json> {
            SLUICE_ASSIGN_OR_RETURN(const size_t index, Index(q, "index"));
            return ProjectionJson(log_, of.run, of.tag, index);
          });
    OfTag("/api/timeline",
          [this](const Request& q, const RunAndTag& of) -> Result<json> {
            SLUICE_ASSIGN_OR_RETURN(const size_t index, Index(q, "index"));
            return TimelineJson(log_, of.run, of.tag, index);
          });
    http_.Get("/api/graph", [this](const Request& q, Response& r) {
      const Result<std::string> run = Parameter(q, "run");
      if (!run.ok()) return Answer(run.status(), &r);
      Answer(GraphJson(log_, *run), &r);
    });
    http_.Get("/api/blob", [this](const Request& q, Response& r) {
      const Result<Blob> blob = ReadBlob(q);
      if (!blob.ok()) return Answer(blob.status(), &r);
      r.set_content(blob->bytes, blob->type);
      r.set_header("Cache-Control", "no-store");
    });
  }

  Result<Blob> ReadBlob(const Request& q) {
    SLUICE_ASSIGN_OR_RETURN(const RunAndTag of, ReadRunAndTag(q));
    SLUICE_ASSIGN_OR_RETURN(const TagKind kind, ReadKind(q));
    SLUICE_ASSIGN_OR_RETURN(const size_t index, Index(q, "index"));
    size_t part = 0;
    if (q.has_param("part")) {
      SLUICE_ASSIGN_OR_RETURN(part, Index(q, "part"));
    }
    return BlobOf(log_, kind, of.run, of.tag, index, part);
  }

  void OfTag(const char* path,
             std::function<Result<json>(const Request&, const RunAndTag&)> f) {
    http_.Get(path, [f = std::move(f)](const Request& q, Response& r) {
      const Result<RunAndTag> of = ReadRunAndTag(q);
      if (!of.ok()) return Answer(of.status(), &r);
      Answer(f(q, *of), &r);
    });
  }

  const ServerOptions options_;
  EventLog log_;
  httplib::Server http_;
  int port_ = -1;
  std::thread serving_, reading_;

  std::mutex mu_;
  std::condition_variable changed_;
  bool ending_ = false;  // GUARDED_BY(mu_)
};

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() = default;

Result<std::unique_ptr<Server>> Server::Start(const std::string& folder,
                                              const ServerOptions& options) {
  auto impl = std::make_unique<Impl>(folder, options);
  SLUICE_RETURN_IF_ERROR(impl->Start());
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

int Server::port() const { return impl_->port(); }
std::string Server::url() const {
  const std::string& host = impl_->host();
  const bool v6 = host.find(':') != std::string::npos;
  return absl::StrCat("http://", v6 ? "[" : "", host, v6 ? "]" : "", ":",
                      impl_->port(), "/");
}
EventLog& Server::log() { return impl_->log(); }
void Server::Wait() { impl_->Wait(); }

}  // namespace sluice::board
