// transfer.hpp: one attempt of a request: a libcurl easy handle and what it received.
//
// Thread safety: none. It must not be destroyed while a multi handle has it.
#pragma once

#include <curl/curl.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "net/http_client.hpp"

namespace tenure::net {

class Transfer {
 public:
  // Throws Error where libcurl has no memory.
  Transfer(const HttpRequest& request, const HttpClientOptions& options);
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;
  ~Transfer() = default;

  [[nodiscard]] CURL* handle() const noexcept { return handle_.get(); }

  // After its end. An error where there was no answer, or none that may be used.
  [[nodiscard]] HttpResult result(CURLcode code);

 private:
  static std::size_t on_body(char* data, std::size_t size, std::size_t count, void* self);
  static std::size_t on_header(char* data, std::size_t size, std::size_t count, void* self);
  void set_options(const HttpClientOptions& options);
  [[nodiscard]] HttpError error(CURLcode code) const;

  struct FreeHandle {
    void operator()(CURL* handle) const noexcept { ::curl_easy_cleanup(handle); }
  };
  struct FreeList {
    void operator()(curl_slist* list) const noexcept { ::curl_slist_free_all(list); }
  };

  const HttpRequest& request_;
  std::unique_ptr<curl_slist, FreeList> headers_;
  std::string message_;
  HttpResponse response_;
  std::size_t received_ = 0;
  bool cut_ = false;         // The body was longer than allowed.
  bool bad_header_ = false;  // Of the request.
  std::unique_ptr<CURL, FreeHandle> handle_;
};

}  // namespace tenure::net
