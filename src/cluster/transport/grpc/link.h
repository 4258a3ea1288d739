// GrpcStream, one gRPC call, and GrpcLink, the peer at its other end.
#ifndef SLUICE_CLUSTER_TRANSPORT_GRPC_LINK_H_
#define SLUICE_CLUSTER_TRANSPORT_GRPC_LINK_H_

#include <grpcpp/client_context.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>

#include <deque>
#include <memory>
#include <mutex>
#include <string>

#include "cluster/transport/grpc/port.h"
#include "cluster/transport/grpc/transport.h"
#include "cluster/transport/shared/ring.h"

namespace sluice {

class GrpcLink;

// Base class of the client's and the server's end of a call. Lives until it has
// ended, has no pending operation and is not referenced. Thread-safe; calls of
// OnRead do not overlap.
class GrpcStream : public std::enable_shared_from_this<GrpcStream> {
 public:
  explicit GrpcStream(GrpcTransport* transport) : transport_(transport) {}
  virtual ~GrpcStream() = default;

  // Starts a write; the link's OnWritten follows. False if the stream is
  // closed. REQUIRES: no write is pending, and the call has begun.
  bool Write(grpc::ByteBuffer buffer);
  // Ends the call and sends `why` to the peer.
  void Close(const Status& why, bool ended = false);
  void SetLink(std::shared_ptr<GrpcLink> link);
  // Starts the first operation of an incoming call.
  void Begin();

 protected:
  using Event = GrpcMethodEvent<GrpcStream>;
  // These start an operation, which completes with its event. REQUIRES: mu_.
  virtual void StartRead(grpc::ByteBuffer* buffer, Event* event) = 0;
  virtual void StartWrite(const grpc::ByteBuffer& buffer, Event* event) = 0;
  // `ended`: the peer has already ended the call.
  virtual void StartClose(const Status& why, bool ended, Event* event) = 0;
  // The status with which the call ended.
  virtual Status Outcome() const { return OkStatus(); }

  void OnBegun(bool ok);
  Event begun_event_{this, &GrpcStream::OnBegun};
  // Called before each operation. REQUIRES: mu_.
  void Hold();
  // Called after the first operation, because Close may have been called before
  // it. REQUIRES: mu_.
  void CloseIfAsked();
  std::mutex mu_;  // Lock order: a link's, then this.

 private:
  friend class GrpcTransport;
  void OnRead(bool ok);
  void ReadOn(bool);
  void OnWritten(bool ok);
  void OnEnded(bool ok);
  // Called after each operation.
  void Drop();
  void End();
  Status Receive(const grpc::ByteBuffer& message);
  Status ReceiveFrame(std::string_view bytes);
  Status ReceiveBodies(std::string_view bytes);
  // Pieces of bodies in shared memory: the offer of a ring, and the notice that
  // a piece is ready.
  Status ReceiveRing(std::string_view token);
  Status ReceivePiece(std::string_view count);
  void Fail(const Status& why);
  std::shared_ptr<GrpcLink> link();

  GrpcTransport* const transport_;
  Event read_event_{this, &GrpcStream::OnRead};
  Event read_on_event_{this, &GrpcStream::ReadOn};
  Event write_event_{this, &GrpcStream::OnWritten};
  Event end_event_{this, &GrpcStream::OnEnded};
  // Reads do not overlap, so this lock is not contended.
  std::mutex read_mu_;
  grpc::ByteBuffer incoming_;         // GUARDED_BY(read_mu_)
  std::deque<IncomingBody*> bodies_;  // GUARDED_BY(read_mu_)
  size_t body_offset_ = 0;            // GUARDED_BY(read_mu_)
  char* body_to_ = nullptr;           // GUARDED_BY(read_mu_)
  std::unique_ptr<RingReader> ring_;  // GUARDED_BY(read_mu_)
  bool ring_offered_ = false;         // GUARDED_BY(read_mu_)
  uint64_t next_frame_ = 0;           // GUARDED_BY(read_mu_)
  int under_way_ = 0;                 // GUARDED_BY(mu_): pending operations.
  std::shared_ptr<GrpcStream> self_;  // GUARDED_BY(mu_): while any is pending.
  std::shared_ptr<GrpcLink> link_;    // GUARDED_BY(mu_)
  bool closed_ = false;               // GUARDED_BY(mu_)
};

class GrpcLink final : public Link {
 public:
  GrpcLink(GrpcTransport* owner, PeerId id, std::string task,
           std::string address, uint64_t expected);

  void Open() override;
  Status SendTokens(uint64_t step, uint32_t partition,
                    std::span<TokenMessage> batch) override;
  Status SendControl(uint8_t kind, std::string_view bytes) override;
  void SendHeartbeat() override;
  bool HasUnsent() override;
  void Close() override;

  // Attaches a call from the peer. False if the link has one already.
  bool Attach(const std::shared_ptr<GrpcStream>& stream);
  // The stream is ready for a write: it has begun, or a write has completed.
  void OnWritten(GrpcStream* stream);
  // The peer's hello has arrived, with its address.
  void OnHello(const std::string& address);
  // Tells the peer that its ring has room again.
  void SendRoomNotice();
  // Something has arrived, possibly that notice.
  void OnHeard() {
    if (starved_.load()) Resume();
  }

 private:
  Status Failpoint(bool* drop);
  void Resume();
  // Starts the next write, if there is one and none is pending. REQUIRES: mu_.
  void Flush();
  // False if there is nothing to write now. REQUIRES: mu_.
  bool NextMessage(grpc::ByteBuffer* message);
  // The next piece of a body. False if the ring is full. REQUIRES: mu_.
  bool NextPiece(grpc::ByteBuffer* message);
  // The offer of a ring. False if none can be offered. REQUIRES: mu_.
  bool OfferRing(grpc::ByteBuffer* message);

  GrpcTransport* const transport_;
  const std::string address_;
  std::mutex mu_;
  FrameWriter writer_;                // GUARDED_BY(mu_)
  std::deque<OutgoingFrame> frames_;  // GUARDED_BY(mu_)
  std::deque<WireBody> bodies_;       // GUARDED_BY(mu_)
  size_t body_offset_ = 0;            // GUARDED_BY(mu_)
  std::string mailbox_;  // GUARDED_BY(mu_): the peer's, until the file is sent.
  std::unique_ptr<RingWriter> ring_;  // GUARDED_BY(mu_)
  // The ring is full and there is nothing else to write. Changed under mu_.
  std::atomic<bool> starved_{false};
  std::shared_ptr<GrpcStream> out_;       // GUARDED_BY(mu_)
  std::shared_ptr<GrpcStream> accepted_;  // GUARDED_BY(mu_)
  bool writing_ = false;                  // GUARDED_BY(mu_): or has not begun.
  bool closed_ = false;                   // GUARDED_BY(mu_)
};

}  // namespace sluice

#endif  // SLUICE_CLUSTER_TRANSPORT_GRPC_LINK_H_
