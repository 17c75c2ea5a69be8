// SPDX-License-Identifier: Apache-2.0
//
// One page of text over HTTP, for programs that look at a running one: GET of its path, nothing
// else. cpp-httplib stays in page_server.cc.
#pragma once

#include <memory>
#include <string>

namespace zaya {

struct PageServerOptions {
  std::string address = "127.0.0.1";
  int port = 0;  // 0: any that is free
  std::string path;
  std::string content_type;
};

// Serves from threads of its own, which take no signals and touch nothing but the text set last.
// A few requests at a time; more of them wait, and slow ones are cut off.
class PageServer {
 public:
  // Takes the port at once; Error{usage} when it is in use or the address isn't of this machine.
  explicit PageServer(const PageServerOptions& options);
  // Ends within some two seconds whatever clients do.
  ~PageServer();
  PageServer(const PageServer&) = delete;
  PageServer& operator=(const PageServer&) = delete;

  int port() const;
  // What the page says from now on; any thread.
  void set_text(std::string text);

 private:
  struct State;
  // Shared with the serving thread, which a stubborn client may keep alive past this object.
  std::shared_ptr<State> state_;
};

}  // namespace zaya
