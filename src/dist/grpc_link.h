// GrpcStream, one call of gRPC, and GrpcLink, the peer at its other end.
#ifndef SLUICE_DIST_GRPC_LINK_H_
#define SLUICE_DIST_GRPC_LINK_H_

#include <grpcpp/client_context.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>

#include <deque>
#include <memory>
#include <mutex>
#include <string>

#include "dist/grpc_port.h"
#include "dist/grpc_transport.h"
#include "dist/shared_ring.h"

namespace sluice {

class GrpcLink;

// What the two ends of a call have in common. Lives until it has ended and none
// of its operations is under way, and nobody else has it. Thread-safe; OnRead
// is called one at a time.
class GrpcStream : public std::enable_shared_from_this<GrpcStream> {
 public:
  explicit GrpcStream(GrpcTransport* transport) : transport_(transport) {}
  virtual ~GrpcStream() = default;

  // Writes; OnWritten of the link follows. False if the stream is closed.
  // REQUIRES: no write is under way, and the call has begun.
  bool Write(grpc::ByteBuffer buffer);
  // Ends the call. The peer is told why.
  void Close(const Status& why, bool ended = false);
  void SetLink(std::shared_ptr<GrpcLink> link);
  // The first operation of a call that came.
  void Begin();

 protected:
  using Event = GrpcMethodEvent<GrpcStream>;
  // These begin an operation, whose event comes. REQUIRES: mu_.
  virtual void StartRead(grpc::ByteBuffer* buffer, Event* event) = 0;
  virtual void StartWrite(const grpc::ByteBuffer& buffer, Event* event) = 0;
  // `ended`: the peer has ended the call already.
  virtual void StartClose(const Status& why, bool ended, Event* event) = 0;
  // Why it ended, once it has.
  virtual Status Outcome() const { return OkStatus(); }

  void OnBegun(bool ok);
  Event begun_event_{this, &GrpcStream::OnBegun};
  // Before each operation. REQUIRES: mu_.
  void Hold();
  // After the first: Close may have come before. REQUIRES: mu_.
  void CloseIfAsked();
  std::mutex mu_;  // Lock order: a link's, then this.

 private:
  friend class GrpcTransport;
  void OnRead(bool ok);
  void ReadOn(bool);
  void OnWritten(bool ok);
  void OnEnded(bool ok);
  // One operation is over.
  void Drop();
  void End();
  Status Receive(const grpc::ByteBuffer& message);
  Status ReceiveFrame(std::string_view bytes);
  Status ReceiveBodies(std::string_view bytes);
  // Pieces of bodies that go by shared memory: an offer of it, and that one is
  // there.
  Status ReceiveRing(std::string_view token);
  Status ReceivePiece(std::string_view count);
  void Fail(const Status& why);
  std::shared_ptr<GrpcLink> link();

  GrpcTransport* const transport_;
  Event read_event_{this, &GrpcStream::OnRead};
  Event read_on_event_{this, &GrpcStream::ReadOn};
  Event write_event_{this, &GrpcStream::OnWritten};
  Event end_event_{this, &GrpcStream::OnEnded};
  // One read at a time: no two threads use these at once.
  std::mutex read_mu_;
  grpc::ByteBuffer incoming_;         // GUARDED_BY(read_mu_)
  std::deque<IncomingBody*> bodies_;  // GUARDED_BY(read_mu_)
  size_t body_offset_ = 0;            // GUARDED_BY(read_mu_)
  char* body_to_ = nullptr;           // GUARDED_BY(read_mu_)
  std::unique_ptr<RingReader> ring_;  // GUARDED_BY(read_mu_)
  bool ring_offered_ = false;         // GUARDED_BY(read_mu_)
  uint64_t next_frame_ = 0;           // GUARDED_BY(read_mu_)
  int under_way_ = 0;                 // GUARDED_BY(mu_): operations.
  std::shared_ptr<GrpcStream> self_;  // GUARDED_BY(mu_): while there are any.
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
  void Close() override;

  // A call of the peer's. False if it has one already.
  bool Attach(const std::shared_ptr<GrpcStream>& stream);
  // The stream may be written to: it has begun, or a write is over.
  void OnWritten(GrpcStream* stream);
  // The peer said hello, from this address.
  void OnHello(const std::string& address);
  // The peer is told that there is room in its shared memory.
  void TellRoom();
  // Something came, perhaps that.
  void OnHeard() {
    if (starved_.load()) Resume();
  }

 private:
  Status Failpoint(bool* drop);
  void Resume();
  // Begins the next write, if there is one and none is under way. REQUIRES:
  // mu_.
  void Flush();
  // False if nothing can be written now. REQUIRES: mu_.
  bool NextMessage(grpc::ByteBuffer* message);
  // The next piece of a body. False if shared memory is full. REQUIRES: mu_.
  bool NextPiece(grpc::ByteBuffer* message);
  // The offer of shared memory; false if there is none. REQUIRES: mu_.
  bool OfferRing(grpc::ByteBuffer* message);

  GrpcTransport* const transport_;
  const std::string address_;
  std::mutex mu_;
  FrameWriter writer_;                // GUARDED_BY(mu_)
  std::deque<OutgoingFrame> frames_;  // GUARDED_BY(mu_)
  std::deque<WireBody> bodies_;       // GUARDED_BY(mu_)
  size_t body_offset_ = 0;            // GUARDED_BY(mu_)
  std::string mailbox_;  // GUARDED_BY(mu_): of the peer, until it has the file.
  std::unique_ptr<RingWriter> ring_;  // GUARDED_BY(mu_)
  // The ring is full and nothing else is to be written. Changed under mu_.
  std::atomic<bool> starved_{false};
  std::shared_ptr<GrpcStream> out_;       // GUARDED_BY(mu_)
  std::shared_ptr<GrpcStream> accepted_;  // GUARDED_BY(mu_)
  bool writing_ = false;                  // GUARDED_BY(mu_): or not begun.
  bool closed_ = false;                   // GUARDED_BY(mu_)
};

}  // namespace sluice

#endif  // SLUICE_DIST_GRPC_LINK_H_
