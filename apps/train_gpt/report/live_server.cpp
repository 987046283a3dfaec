#include "apps/train_gpt/report/live_server.h"

#include <fmt/core.h>
#include <httplib.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <future>
#include <mutex>
#include <set>
#include <utility>

#include "framework/core/error.h"

namespace zerolab::app {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMostConnections = 16;
constexpr size_t kLargestRequest = size_t{16} << 10;
constexpr std::chrono::seconds kPatience(5);
constexpr std::chrono::seconds kPushInterval(1);
constexpr std::chrono::milliseconds kFarewell(500);

bool is_host_header(std::string_view line) {
  constexpr std::string_view kName = "host:";
  return line.size() > kName.size() && strncasecmp(line.data(), kName.data(), kName.size()) == 0;
}

/// An answer without content, if the socket takes it at once.
void answer(int socket, std::string_view status) {
  const std::string text =
      fmt::format("HTTP/1.1 {}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", status);
  send(socket, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

/// A browser's connection, as httplib sees it. The socket has `kPatience` as the timeout of each
/// call; a request as a whole is bounded here, in size and in time.
class Connection final : public httplib::Stream {
 public:
  explicit Connection(int socket) : socket_(socket) {}

  /// Takes the request's head up to its empty line; bodies are never read. Of the headers httplib
  /// gets "Host" alone: what it would do for others takes the run's time (compression) or can be
  /// abused (a long list of ranges overflows the stack of its regular expression).
  bool receive() {
    const Clock::time_point deadline = Clock::now() + kPatience;
    std::string head;
    while (head.find("\r\n\r\n") == std::string::npos) {
      if (head.size() > kLargestRequest) {
        answer(socket_, "431 Request Header Fields Too Large");
        return false;
      }
      char block[1024];
      const ssize_t got = recv(socket_, block, sizeof(block), 0);
      if (got <= 0 || Clock::now() > deadline) {
        return false;
      }
      head.append(block, got);
    }
    std::string_view rest = head;
    for (size_t end; (end = rest.find('\n')) != std::string_view::npos;
         rest.remove_prefix(end + 1)) {
      if (request_.empty() || is_host_header(rest)) {
        request_ += rest.substr(0, end + 1);
      }
    }
    request_ += "\r\n";
    return true;
  }

  bool is_readable() const override { return true; }
  bool is_writable() const override { return true; }
  ssize_t read(char* data, size_t size) override {
    const size_t count = request_.copy(data, size, read_);
    read_ += count;
    return static_cast<ssize_t>(count);
  }
  ssize_t write(const char* data, size_t size) override {
    return send(socket_, data, size, MSG_NOSIGNAL);
  }
  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  int socket() const override { return socket_; }

 private:
  int socket_;
  std::string request_;
  size_t read_ = 0;  ///< of it
};

}  // namespace

class LiveServer::Http final : public httplib::Server {
 public:
  Http(const ListenAddress& address, std::string page, Source source)
      : address_(address), page_(std::move(page)), source_(std::move(source)) {
    // httplib's own choice would let two programs share a port.
    set_socket_options([](int socket) {
      const int on = 1;
      setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    });
    set_read_timeout(kPatience);
    set_write_timeout(kPatience);
    // One more than are served, to turn the others away.
    new_task_queue = [] { return new httplib::ThreadPool(kMostConnections + 1); };
    set_default_headers({{"Cache-Control", "no-store"}, {"X-Content-Type-Options", "nosniff"}});
    set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
      return check(request, response);
    });
    Get("/", [this](const httplib::Request&, httplib::Response& response) {
      response.set_content(page_, "text/html; charset=utf-8");
    });
    Get("/events", [this](const httplib::Request&, httplib::Response& response) {
      response.set_chunked_content_provider(
          "text/event-stream",
          [this, sent = std::shared_ptr<const std::string>()](
              size_t, httplib::DataSink& sink) mutable { return send_event(sent, sink); });
    });
    bind();
  }

  ~Http() override {
    if (listening_.valid()) {
      end();
    } else {
      close(svr_sock_);
    }
  }

  void start() {
    listening_ = std::async(std::launch::async, [this] {
      // Which the threads that serve inherit: signals are for the run, and would cut calls short.
      sigset_t signals;
      sigfillset(&signals);
      pthread_sigmask(SIG_BLOCK, &signals, nullptr);
      pthread_setname_np(pthread_self(), "live page");
      listen_after_bind();
    });
  }

  const ListenAddress& address() const { return address_; }

 private:
  void bind() {
    errno = 0;
    const int port = address_.port == 0                           ? bind_to_any_port(address_.host)
                     : bind_to_port(address_.host, address_.port) ? address_.port
                                                                  : -1;
    if (port < 0) {
      throw ConfigError(
          "dashboard",
          fmt::format(
              "cannot listen at {}: {}", address_.url(),
              errno == EADDRINUSE
                  ? "another program uses this port; expected one that is free; set "
                    "log.dashboard to another, or to \"0\" for any that is free"
                  : "expected an address of this machine, and a port that its user may take "
                    "(above 1023)"));
    }
    address_.port = port;
    // httplib's queue of 5 would make the sixth of those who come at once try again, seconds later.
    ::listen(svr_sock_, SOMAXCONN);
  }

  HandlerResponse check(const httplib::Request& request, httplib::Response& response) const {
    if (!address_.is_named_by(request.get_header_value("Host"))) {
      response.status = 403;
    } else if (request.method != "GET" && request.method != "HEAD") {
      response.status = 405;
      response.set_header("Allow", "GET, HEAD");
    } else {
      return HandlerResponse::Unhandled;
    }
    return HandlerResponse::Handled;
  }

  /// The first event at once, the others a second later each, or a comment where nothing is new:
  /// that too finds out whether the browser is still there.
  bool send_event(std::shared_ptr<const std::string>& sent, httplib::DataSink& sink) {
    std::unique_lock lock(mutex_);
    if (sent != nullptr) {
      changed_.wait_for(lock, kPushInterval, [this] { return ended_; });
    }
    const bool ended = ended_;
    lock.unlock();
    const std::shared_ptr<const std::string> event = source_(ended);
    const std::string_view text = event == sent ? ":\n\n" : std::string_view(*event);
    if (!sink.write(text.data(), text.size())) {
      return false;
    }
    sent = event;
    if (ended) {
      sink.done();
    }
    return true;
  }

  bool process_and_close_socket(int socket) override {
    if (admit(socket)) {
      try {
        Connection connection(socket);
        bool closed = false;
        if (connection.receive()) {
          process_request(connection, true, closed, nullptr);
        }
      } catch (...) {  // its browser sees a broken connection; the run must not see anything
      }
    } else {
      answer(socket, "503 Service Unavailable");
    }
    const std::lock_guard lock(mutex_);  // `end` must not meet a number that is a new socket's
    open_.erase(socket);
    shutdown(socket, SHUT_RDWR);
    close(socket);
    changed_.notify_all();
    return true;
  }

  bool admit(int socket) {
    const std::lock_guard lock(mutex_);
    return !ended_ && open_.size() < kMostConnections && open_.insert(socket).second;
  }

  void end() {
    std::unique_lock lock(mutex_);
    ended_ = true;
    changed_.notify_all();
    changed_.wait_for(lock, kFarewell, [this] { return open_.empty(); });
    for (const int socket : open_) {
      shutdown(socket, SHUT_RDWR);
    }
    lock.unlock();
    while (!is_running() &&
           listening_.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) {
    }
    stop();
    listening_.wait();
  }

  ListenAddress address_;
  const std::string page_;
  const Source source_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<int> open_;  ///< sockets of those who are served
  bool ended_ = false;
  std::future<void> listening_;
};

LiveServer::LiveServer(const ListenAddress& address, std::string page, Source source)
    : http_(std::make_unique<Http>(address, std::move(page), std::move(source))) {}

LiveServer::~LiveServer() = default;

void LiveServer::start() { http_->start(); }

std::string LiveServer::url() const { return http_->address().url(); }

}  // namespace zerolab::app
