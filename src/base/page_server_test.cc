// SPDX-License-Identifier: Apache-2.0
//
// The server against clients that behave and clients that do not, over plain sockets.
#include "base/page_server.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/error.h"

namespace zaya {

namespace {

PageServerOptions page(int port = 0) { return {"127.0.0.1", port, "/metrics", "text/plain"}; }

class Client {
 public:
  explicit Client(int port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    is_connected_ =
        ::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    const timeval limit{10, 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  }
  ~Client() { ::close(socket_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  bool is_connected() const { return is_connected_; }
  void send(std::string_view text) {
    static_cast<void>(::send(socket_, text.data(), text.size(), MSG_NOSIGNAL));
  }
  // All that comes until the server closes.
  std::string receive() {
    std::string text;
    char block[4096];
    for (ssize_t got; (got = ::recv(socket_, block, sizeof block, 0)) > 0;) {
      text.append(block, static_cast<std::size_t>(got));
    }
    return text;
  }

 private:
  int socket_;
  bool is_connected_ = false;
};

std::string ask(int port, std::string_view request) {
  Client client(port);
  client.send(request);
  return client.receive();
}

bool is_answer(const std::string& answer, std::string_view status, std::string_view body) {
  return answer.starts_with("HTTP/1.1 " + std::string(status)) &&
         answer.ends_with("\r\n\r\n" + std::string(body));
}

}  // namespace

TEST_CASE("the page is what was set last, and other paths and methods are refused") {
  PageServer server(page());
  const int port = server.port();
  CHECK(port > 0);
  CHECK(is_answer(ask(port, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"), "200", ""));
  server.set_text("a 1\n");
  CHECK(is_answer(ask(port, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"), "200", "a 1\n"));
  server.set_text("a 2\n");
  const std::string answer = ask(port, "GET /metrics HTTP/1.0\r\n\r\n");
  CHECK(is_answer(answer, "200", "a 2\n"));
  CHECK(answer.find("Content-Type: text/plain") != std::string::npos);
  CHECK(is_answer(ask(port, "GET / HTTP/1.1\r\n\r\n"), "404", "see /metrics\n"));
  CHECK(
      ask(port, "POST /metrics HTTP/1.1\r\nContent-Length: 0\r\n\r\n").starts_with("HTTP/1.1 405"));
  CHECK(is_answer(ask(port, "HEAD /metrics HTTP/1.1\r\n\r\n"), "200", ""));
}

TEST_CASE("a port in use and a strange address are errors of usage, and a freed port is free") {
  std::optional<PageServer> first(std::in_place, page());
  const int port = first->port();
  try {
    PageServer second(page(port));
    FAIL("two servers at one port");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::usage);
    CHECK(error.message().find("port " + std::to_string(port)) != std::string::npos);
    CHECK(error.message().find("Address already in use") != std::string::npos);
  }
  CHECK_THROWS_AS(PageServer({"192.0.2.1", 0, "/", "text/plain"}), Error);
  first.reset();
  PageServer again(page(port));
  CHECK(ask(port, "GET /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200"));
}

TEST_CASE("requests of every bad kind leave a server that answers the next one") {
  PageServer server(page());
  server.set_text("a 1\n");
  const std::string get = "GET /metrics HTTP/1.1\r\n";
  const std::string many(100, ',');
  std::string ranges = "0-0";
  for (int i = 0; i < 500; ++i) ranges += ",0-0";
  for (const std::string& request :
       {std::string(), std::string("\r\n\r\n"), std::string("GET\r\n\r\n"),
        std::string("GET /metrics HTTP/9.9\r\n\r\n"), std::string(100'000, 'G'),
        "GET /" + std::string(20'000, 'x') + " HTTP/1.1\r\n\r\n",
        get + "Range: bytes=99999-\r\n\r\n", get + "Range: bytes=3-1\r\n\r\n",
        get + "Range: bytes=-99999\r\n\r\n", get + "Range: bytes=\r\n\r\n",
        get + "Range: bytes=99999999999999999999-\r\n\r\n",
        get + "Range: bytes=" + many + "\r\n\r\n", get + "Range: bytes=" + ranges + "\r\n\r\n",
        get + "Content-Length: 99999999999\r\n\r\n",
        get + "Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        get + "X: " + std::string(20'000, 'y') + "\r\n\r\n",
        std::string("GET /%%% HTTP/1.1\r\n\r\n"),
        std::string("GET /metrics?a=%zz&&&= HTTP/1.1\r\n\r\n"),
        std::string("\x00\xFF\x80\r\n\r\n", 7)}) {
    Client client(server.port());
    client.send(request);
    if (request.empty()) continue;
    client.receive();
  }
  CHECK(is_answer(ask(server.port(), get + "\r\n"), "200", "a 1\n"));
}

TEST_SUITE("slow") {
  TEST_CASE("clients that say nothing hold up neither others nor the end") {
    std::optional<PageServer> server(std::in_place, page());
    server->set_text("a 1\n");
    std::vector<std::unique_ptr<Client>> silent;
    for (int i = 0; i < 2; ++i) {
      silent.push_back(std::make_unique<Client>(server->port()));
      silent.back()->send("GET /met");
    }
    CHECK(is_answer(ask(server->port(), "GET /metrics HTTP/1.1\r\n\r\n"), "200", "a 1\n"));
    // As many as find room: further ones would wait for the system to accept them.
    for (int i = 0; i < 8; ++i) silent.push_back(std::make_unique<Client>(server->port()));
    const double began = monotonic_seconds();
    server.reset();
    CHECK(monotonic_seconds() - began < 5);
  }

}  // TEST_SUITE

TEST_CASE("the server's threads take no signals") {
  PageServer server(page());
  ask(server.port(), "GET /metrics HTTP/1.1\r\n\r\n");
  // With the signal blocked here too it stays pending unless some thread takes it.
  sigset_t set, before;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &set, &before);
  kill(getpid(), SIGUSR1);
  usleep(50'000);
  sigset_t pending;
  sigpending(&pending);
  CHECK(sigismember(&pending, SIGUSR1) == 1);
  int taken = 0;
  CHECK(sigwait(&set, &taken) == 0);
  CHECK(taken == SIGUSR1);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace zaya
