// SPDX-License-Identifier: Apache-2.0
#include "base/page_server.h"

#include <fmt/core.h>
#include <httplib.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"

namespace zaya {

namespace {

constexpr int kWorkers = 2;
constexpr std::size_t kMostWaiting = 4;
constexpr int kTimeoutSeconds = 1;
constexpr int kIdleMicroseconds = 100'000;
constexpr std::chrono::seconds kStopLimit(2);
constexpr std::size_t kLongestBody = 1024;

// Connections that were accepted and the threads that answer them. At most kMostWaiting wait: then
// accepting waits, so that clients can't use up the process's descriptors. A request that throws
// costs that request only.
class Connections {
 public:
  void start() {
    for (int i = 0; i < kWorkers; ++i) {
      workers_.emplace_back([this] { work(); });
    }
  }

  void add(std::function<void()> serve) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_.size() < kMostWaiting || is_closed_; });
    waiting_.push_back(std::move(serve));
    changed_.notify_all();
  }

  // Nothing waits for room any more.
  void close() {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
    changed_.notify_all();
  }

  // Returns when all that were added are answered.
  void finish() {
    close();
    for (std::thread& worker : workers_) worker.join();
    workers_.clear();
  }

 private:
  void work() {
    while (true) {
      std::function<void()> serve;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return !waiting_.empty() || is_closed_; });
        if (waiting_.empty()) return;
        serve = std::move(waiting_.front());
        waiting_.pop_front();
        changed_.notify_all();
      }
      try {
        serve();
      } catch (const std::exception&) {
        // A malformed request; there is nobody to tell.
      }
    }
  }

  std::mutex mutex_;  // guards waiting_ and is_closed_
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;
  bool is_closed_ = false;
  std::vector<std::thread> workers_;
};

// The library deletes its queue itself.
class Queue : public httplib::TaskQueue {
 public:
  explicit Queue(Connections& connections) : connections_(connections) { connections.start(); }
  void enqueue(std::function<void()> serve) override { connections_.add(std::move(serve)); }
  void shutdown() override { connections_.finish(); }

 private:
  Connections& connections_;
};

// Looks every now and then whether it shall end: closing a socket that another thread waits on
// could hit a file that got the same number.
class Server : public httplib::Server {
 public:
  ~Server() override {
    if (ended_ != INVALID_SOCKET) ::close(ended_);
  }
  void end() { ended_ = svr_sock_.exchange(INVALID_SOCKET); }
  bool has_ended() const { return svr_sock_ == INVALID_SOCKET; }

 private:
  socket_t ended_ = INVALID_SOCKET;
};

// While it lives, threads that are started take no signals.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

}  // namespace

struct PageServer::State {
  Server server;
  Connections connections;
  int port = 0;
  std::string path, content_type;
  std::mutex mutex;  // guards text and is_over
  std::string text;
  bool is_over = false;
  std::condition_variable over;
  std::thread thread;

  void configure();
  void answer(const httplib::Request& request, httplib::Response& response);
  void serve();
};

void PageServer::State::configure() {
  server.set_keep_alive_max_count(1);
  server.set_keep_alive_timeout(kTimeoutSeconds);
  server.set_read_timeout(kTimeoutSeconds);
  server.set_write_timeout(kTimeoutSeconds);
  server.set_idle_interval(0, kIdleMicroseconds);
  server.set_payload_max_length(kLongestBody);
  // The library's own choice would let a second process share the port.
  server.set_socket_options([](socket_t socket) {
    const int yes = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  server.new_task_queue = [this] { return new Queue(connections); };
  server.set_pre_routing_handler(
      [this](const httplib::Request& request, httplib::Response& response) {
        answer(request, response);
        return httplib::Server::HandlerResponse::Handled;
      });
}

void PageServer::State::answer(const httplib::Request& request, httplib::Response& response) {
  if (request.path != path) {
    response.status = 404;
    response.set_content(fmt::format("see {}\n", path), "text/plain");
  } else if (request.method != "GET" && request.method != "HEAD") {
    response.status = 405;
    response.set_header("Allow", "GET, HEAD");
  } else {
    const std::lock_guard lock(mutex);
    response.status = 200;
    response.set_content(text, content_type);
  }
}

void PageServer::State::serve() {
  server.listen_after_bind();
  if (!server.has_ended()) {
    log_warning(
        fmt::format("nothing is served at port {} any more: {}", port, std::strerror(errno)));
  }
  const std::lock_guard lock(mutex);
  is_over = true;
  over.notify_all();
}

PageServer::PageServer(const PageServerOptions& options) : state_(std::make_shared<State>()) {
  State& state = *state_;
  state.path = options.path;
  state.content_type = options.content_type;
  state.configure();
  errno = 0;
  if (options.port == 0) {
    state.port = state.server.bind_to_any_port(options.address);
  } else if (state.server.bind_to_port(options.address, options.port)) {
    state.port = options.port;
  } else {
    state.port = -1;
  }
  if (state.port < 0) {
    throw Error{ErrorKind::usage,
                fmt::format("can't serve at {} port {}: {}; choose another port or address",
                            options.address, options.port,
                            errno != 0 ? std::strerror(errno) : "no such address here")};
  }
  const SignalsBlocked blocked;
  state.thread = std::thread([shared = state_] { shared->serve(); });
}

PageServer::~PageServer() {
  State& state = *state_;
  state.server.end();
  state.connections.close();
  std::unique_lock lock(state.mutex);
  const bool is_over = state.over.wait_for(lock, kStopLimit, [&] { return state.is_over; });
  lock.unlock();
  if (is_over) {
    state.thread.join();
  } else {
    state.thread.detach();
  }
}

int PageServer::port() const { return state_->port; }

void PageServer::set_text(std::string text) {
  const std::lock_guard lock(state_->mutex);
  state_->text = std::move(text);
}

}  // namespace zaya
