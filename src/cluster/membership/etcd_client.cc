#include "cluster/membership/etcd_client.h"

#include "absl/strings/str_join.h"
#include "cluster/proto/etcd.grpc.pb.h"

namespace sluice {
namespace {

// The end of a prefix's range: the next string that does not begin with it.
std::string EndOf(std::string prefix) {
  while (!prefix.empty()) {
    if (static_cast<unsigned char>(prefix.back()) < 0xff) {
      ++prefix.back();
      return prefix;
    }
    prefix.pop_back();
  }
  return std::string(1, '\0');  // To the end of all keys.
}

grpc::ChannelArguments ChannelArguments() {
  grpc::ChannelArguments args;
  // (etcd treats pings more frequent than every 5 s as an attack.)
  args.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10000);
  args.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5000);
  args.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  args.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  args.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 2000);  // For one attempt.
  args.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 500);
  args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return args;
}

}  // namespace

// A pending call, which Shutdown can cancel.
class EtcdClient::Call {
 public:
  explicit Call(EtcdClient* client) : client_(client) {
    std::lock_guard<std::mutex> lock(client->mu_);
    client->under_way_.insert(&context);
    if (client->stopped_) context.TryCancel();
  }
  ~Call() {
    std::lock_guard<std::mutex> lock(client_->mu_);
    client_->under_way_.erase(&context);
  }
  grpc::ClientContext context;

 private:
  EtcdClient* const client_;
};

EtcdClient::EtcdClient(std::vector<std::string> endpoints,
                       std::chrono::milliseconds patience)
    : endpoints_(std::move(endpoints)), patience_(patience) {
  for (const std::string& e : endpoints_)
    channels_.push_back(grpc::CreateCustomChannel(
        e, grpc::InsecureChannelCredentials(), ChannelArguments()));
}

EtcdClient::~EtcdClient() { Shutdown(); }

void EtcdClient::Shutdown() {
  std::lock_guard<std::mutex> lock(mu_);
  stopped_ = true;
  for (grpc::ClientContext* c : under_way_) c->TryCancel();
}

std::string EtcdClient::Describe() const {
  return "etcd at " + absl::StrJoin(endpoints_, ", ");
}

Status EtcdClient::Try(
    const std::function<grpc::Status(const Channel&, grpc::ClientContext*)>&
        call) {
  Status last;
  for (size_t n = 0; n < endpoints_.size(); ++n) {
    size_t i = 0;
    {
      std::lock_guard<std::mutex> lock(mu_);
      if (stopped_) return Cancelled(Describe(), ": the client is shut down");
      i = current_;
    }
    Call c(this);
    c.context.set_deadline(std::chrono::system_clock::now() + patience_);
    c.context.set_wait_for_ready(true);  // (It may be starting.)
    const grpc::Status s = call(channels_[i], &c.context);
    if (s.ok()) return OkStatus();
    const bool late = s.error_code() == grpc::DEADLINE_EXCEEDED;
    last =
        Status(late ? StatusCode::kUnavailable
                    : static_cast<StatusCode>(s.error_code()),
               absl::StrCat("etcd at ", endpoints_[i],
                            ": expected an answer within ", patience_.count(),
                            " ms, got ", late ? "none" : s.error_message()));
    if (last.code() != StatusCode::kUnavailable) return last;
    std::lock_guard<std::mutex> lock(mu_);
    current_ = (i + 1) % endpoints_.size();
  }
  return last;
}

Result<std::vector<EtcdEntry>> EtcdClient::List(const std::string& prefix,
                                                int64_t* revision) {
  etcdserverpb::RangeRequest q;
  q.set_key(prefix);
  q.set_range_end(EndOf(prefix));
  etcdserverpb::RangeResponse r;
  SLUICE_RETURN_IF_ERROR(
      Try([&](const Channel& channel, grpc::ClientContext* context) {
        etcdserverpb::KV::Stub stub(channel);
        return stub.Range(context, q, &r);
      }));
  std::vector<EtcdEntry> entries;
  for (const auto& kv : r.kvs()) entries.push_back({kv.key(), kv.value()});
  *revision = r.header().revision();
  return entries;
}

Result<int64_t> EtcdClient::Grant(std::chrono::seconds wanted,
                                  std::chrono::seconds* granted) {
  etcdserverpb::LeaseGrantRequest q;
  q.set_ttl(wanted.count());
  etcdserverpb::LeaseGrantResponse r;
  SLUICE_RETURN_IF_ERROR(
      Try([&](const Channel& channel, grpc::ClientContext* context) {
        etcdserverpb::Lease::Stub stub(channel);
        return stub.LeaseGrant(context, q, &r);
      }));
  if (r.id() == 0 || !r.error().empty())
    return Unavailable(Describe(), ": expected a lease, got: ", r.error());
  *granted = std::chrono::seconds(r.ttl());
  return r.id();
}

Result<bool> EtcdClient::KeepAlive(int64_t lease) {
  etcdserverpb::LeaseKeepAliveRequest q;
  q.set_id(lease);
  etcdserverpb::LeaseKeepAliveResponse r;
  bool answered = false;
  SLUICE_RETURN_IF_ERROR(
      Try([&](const Channel& channel, grpc::ClientContext* context) {
        etcdserverpb::Lease::Stub stub(channel);
        const auto stream = stub.LeaseKeepAlive(context);
        if (stream->Write(q)) answered = stream->Read(&r);
        stream->WritesDone();
        if (answered) {  // The stream's status no longer matters.
          context->TryCancel();
          (void)stream->Finish();
          return grpc::Status::OK;
        }
        const grpc::Status s = stream->Finish();
        return s.ok() ? grpc::Status(grpc::UNAVAILABLE, "no answer") : s;
      }));
  return r.ttl() > 0;
}

Status EtcdClient::Revoke(int64_t lease) {
  etcdserverpb::LeaseRevokeRequest q;
  q.set_id(lease);
  etcdserverpb::LeaseRevokeResponse r;
  return Try([&](const Channel& channel, grpc::ClientContext* context) {
    etcdserverpb::Lease::Stub stub(channel);
    return stub.LeaseRevoke(context, q, &r);
  });
}

Result<std::optional<std::string>> EtcdClient::Claim(const EtcdEntry& entry,
                                                     int64_t lease) {
  etcdserverpb::TxnRequest q;
  auto* compare = q.add_compare();
  compare->set_target(etcdserverpb::Compare::CREATE);
  compare->set_key(entry.key);
  compare->set_create_revision(0);  // The key does not exist.
  auto* put = q.add_success()->mutable_request_put();
  put->set_key(entry.key);
  put->set_value(entry.value);
  put->set_lease(lease);
  q.add_failure()->mutable_request_range()->set_key(entry.key);
  etcdserverpb::TxnResponse r;
  SLUICE_RETURN_IF_ERROR(
      Try([&](const Channel& channel, grpc::ClientContext* context) {
        etcdserverpb::KV::Stub stub(channel);
        return stub.Txn(context, q, &r);
      }));
  if (r.succeeded()) return std::optional<std::string>();
  if (r.responses_size() != 1 ||
      r.responses(0).response_range().kvs_size() != 1)
    return Aborted(Describe(), ": expected the value of '", entry.key,
                   "', got none");
  return std::optional<std::string>(
      r.responses(0).response_range().kvs(0).value());
}

Status EtcdClient::Watch(const std::string& prefix, int64_t revision,
                         const std::function<bool()>& changed) {
  size_t i = 0;
  {
    std::lock_guard<std::mutex> lock(mu_);
    i = current_;
  }
  Call c(this);
  // A member that is cut off from its leader ends the watch instead of never
  // telling of a change.
  c.context.AddMetadata("hasleader", "true");
  etcdserverpb::Watch::Stub stub(channels_[i]);
  const auto stream = stub.Watch(&c.context);
  etcdserverpb::WatchRequest q;
  auto* create = q.mutable_create_request();
  create->set_key(prefix);
  create->set_range_end(EndOf(prefix));
  create->set_start_revision(revision);
  etcdserverpb::WatchResponse r;
  bool go_on = stream->Write(q);
  while (go_on && stream->Read(&r) && !r.canceled())
    if (r.events_size() > 0) go_on = changed();
  c.context.TryCancel();
  const grpc::Status s = stream->Finish();
  return Unavailable("etcd at ", endpoints_[i],
                     ": expected a watch of the keys, got: ",
                     r.canceled() ? r.cancel_reason() : s.error_message());
}

}  // namespace sluice
