#include "net/transfer.hpp"

#include <algorithm>
#include <string_view>

#include "tenure/error.hpp"

namespace tenure::net {
namespace {

using Kind = HttpError::Kind;

// What libcurl reports, as far as callers tell it apart.
Kind kind_of(CURLcode code) noexcept {
  switch (code) {
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL: return Kind::bad_request;
    case CURLE_OPERATION_TIMEDOUT: return Kind::timeout;
    case CURLE_TOO_MANY_REDIRECTS: return Kind::redirects;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER:
    case CURLE_SSL_ISSUER_ERROR: return Kind::tls;
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_BAD_CONTENT_ENCODING:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM: return Kind::protocol;
    default: return Kind::connect;  // Refused, reset, cut short, no such host.
  }
}

std::string_view advice(Kind kind) noexcept {
  switch (kind) {
    case Kind::bad_request: return "use an http:// or https:// address";
    case Kind::connect: return "check that the server runs and can be reached";
    case Kind::timeout: return "check the server, or allow more time";
    case Kind::tls: return "check the server's certificate";
    case Kind::redirects: return "use the final address";
    case Kind::too_large: return "ask for less";
    case Kind::protocol: return "check that the address is that of an HTTP server";
    case Kind::cancelled: return "";
  }
  return "";
}

std::string lower(std::string_view text) {
  std::string out{text};
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view blank = " \t\r\n";
  const std::size_t from = text.find_first_not_of(blank);
  if (from == std::string_view::npos) return {};
  return text.substr(from, text.find_last_not_of(blank) - from + 1);
}

// A URL may have a password in it.
std::string shown(const std::string& url) {
  const std::size_t begin = url.find("://");
  if (begin == std::string::npos) return url;
  const std::size_t end = url.find_first_of("/?#", begin + 3);
  const std::size_t at = url.substr(0, end).rfind('@');
  if (at == std::string::npos) return url;
  return url.substr(0, begin + 3) + "***" + url.substr(at);
}

}  // namespace

Transfer::Transfer(const HttpRequest& request, const HttpClientOptions& options)
    : request_(request), message_(CURL_ERROR_SIZE, '\0'), handle_(::curl_easy_init()) {
  if (!handle_) throw Error("libcurl could not make a handle: not enough memory");
  for (const auto& [name, value] : request.headers) {
    std::string line = name;
    line += ": ";
    line += value;
    bad_header_ =
        bad_header_ || line.find_first_of(std::string_view{"\r\n\0", 3}) != std::string_view::npos;
    curl_slist* const longer = ::curl_slist_append(headers_.get(), line.c_str());
    if (longer == nullptr) throw Error("libcurl could not add a header: not enough memory");
    std::ignore = headers_.release();
    headers_.reset(longer);
  }
  set_options(options);
}

void Transfer::set_options(const HttpClientOptions& options) {
  const auto set = [this](CURLoption option, auto value) {
    ::curl_easy_setopt(handle_.get(), option, value);
  };
  const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(request_.timeout).count();
  set(CURLOPT_ERRORBUFFER, message_.data());
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
  // A header with a line break in it would be several: such a request must not go out.
  set(CURLOPT_URL, bad_header_ ? "" : request_.url.c_str());
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_NOBODY, request_.head ? 1L : 0L);
  set(CURLOPT_TIMEOUT_MS, static_cast<long>(std::max<std::int64_t>(milliseconds, 1)));
  set(CURLOPT_FOLLOWLOCATION, 1L);
  set(CURLOPT_MAXREDIRS, static_cast<long>(request_.max_redirects));
  set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_2TLS));
  set(CURLOPT_USERAGENT, "tenure");
  set(CURLOPT_HTTPHEADER, headers_.get());
  set(CURLOPT_WRITEFUNCTION, &Transfer::on_body);
  set(CURLOPT_WRITEDATA, this);
  set(CURLOPT_HEADERFUNCTION, &Transfer::on_header);
  set(CURLOPT_HEADERDATA, this);
  if (!options.ca_file.empty()) set(CURLOPT_CAINFO, options.ca_file.c_str());
}

// Returning less than was given ends the transfer.
std::size_t Transfer::on_body(char* data, std::size_t size, std::size_t count, void* self) {
  auto& transfer = *static_cast<Transfer*>(self);
  const std::size_t bytes = size * count;
  transfer.received_ += bytes;
  transfer.cut_ = transfer.received_ > transfer.request_.max_body;
  if (transfer.cut_) return 0;
  if (!transfer.request_.ignore_body) transfer.response_.body.append(data, bytes);
  return bytes;
}

std::size_t Transfer::on_header(char* data, std::size_t size, std::size_t count, void* self) {
  auto& response = static_cast<Transfer*>(self)->response_;
  const std::string_view line{data, size * count};
  const std::size_t colon = line.find(':');
  if (line.starts_with("HTTP/")) {  // Of the next answer, after a redirect.
    response.headers.clear();
  } else if (colon != std::string_view::npos) {
    response.headers.insert_or_assign(lower(trim(line.substr(0, colon))),
                                      std::string{trim(line.substr(colon + 1))});
  }
  return line.size();
}

HttpError Transfer::error(CURLcode code) const {
  HttpError error;
  std::string why = message_.substr(0, message_.find('\0'));
  if (why.empty()) why = ::curl_easy_strerror(code);
  error.kind = kind_of(code);
  if (bad_header_) {
    error.kind = Kind::bad_request;
    why = "a header contains a line break";
  } else if (cut_) {
    error.kind = Kind::too_large;
    why = "the body has more than " + std::to_string(request_.max_body) + " bytes";
  } else if (code == CURLE_UNSUPPORTED_PROTOCOL) {
    long redirects = 0;
    ::curl_easy_getinfo(handle(), CURLINFO_REDIRECT_COUNT, &redirects);
    if (redirects > 0) error.kind = Kind::redirects;
  }
  error.message = (request_.head ? "HEAD '" : "GET '") + shown(request_.url) + "' failed: " + why +
                  ": " + std::string{advice(error.kind)};
  return error;
}

HttpResult Transfer::result(CURLcode code) {
  long status = 0;
  const char* url = nullptr;
  ::curl_easy_getinfo(handle(), CURLINFO_RESPONSE_CODE, &status);
  ::curl_easy_getinfo(handle(), CURLINFO_EFFECTIVE_URL, &url);
  // The rest of a body that nobody wants is not worth waiting for.
  const bool enough = cut_ && request_.ignore_body;
  if (code != CURLE_OK && !enough) return std::unexpected(error(code));
  response_.status = static_cast<std::uint32_t>(status);
  if (url != nullptr) response_.url = url;
  return std::move(response_);
}

}  // namespace tenure::net
