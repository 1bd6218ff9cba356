#include "net/http_client.hpp"

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <optional>
#include <random>
#include <utility>

#include "base/annotations.hpp"
#include "base/mutex.hpp"
#include "base/thread_group.hpp"
#include "net/retry.hpp"
#include "net/transfer.hpp"
#include "tenure/error.hpp"

namespace tenure::net {
namespace {

CURLM* new_multi() {
  static std::once_flag once;
  // Never undone: other parts of the program may use libcurl too.
  std::call_once(once, [] { ::curl_global_init(CURL_GLOBAL_DEFAULT); });
  CURLM* const multi = ::curl_multi_init();
  if (multi == nullptr) throw Error("libcurl could not start: not enough memory");
  return multi;
}

std::string ca_file_of_environment() {
  for (const char* const name : {"CURL_CA_BUNDLE", "SSL_CERT_FILE"}) {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): as getaddrinfo does.
    if (const char* const file = std::getenv(name); file != nullptr && *file != '\0') return file;
  }
  return {};
}

}  // namespace

// Jobs belong to the loop's thread; other threads leave orders under the mutex and wake it.
class HttpClient::Loop {
 public:
  explicit Loop(HttpClientOptions options)
      : options_(std::move(options)),
        random_(options_.seed != 0 ? options_.seed : std::random_device{}()),
        multi_(new_multi()) {
    if (options_.ca_file.empty()) options_.ca_file = ca_file_of_environment();
    options_.connections = std::max<std::size_t>(options_.connections, 1);
    const auto pool = static_cast<long>(options_.connections);
    ::curl_multi_setopt(multi_.get(), CURLMOPT_MAX_TOTAL_CONNECTIONS, pool);
    ::curl_multi_setopt(multi_.get(), CURLMOPT_MAXCONNECTS, pool);
    thread_.run([this] { run(); });
  }
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;
  ~Loop() {
    {
      const base::Mutex::Scoped lock{mutex_};
      stopping_ = true;
    }
    wake();
    thread_.wait();
  }

  void wake() { ::curl_multi_wakeup(multi_.get()); }

  Id start(HttpRequest request, Callback callback) {
    Id id = 0;
    {
      const base::Mutex::Scoped lock{mutex_};
      if (unfinished_ == max_requests) {
        throw BadRequest("100,000 HTTP requests have not ended: wait for some of them");
      }
      ++unfinished_;
      id = ++last_id_;
      arrived_.emplace_back(id, std::make_unique<Job>(std::move(request), std::move(callback)));
    }
    wake();
    return id;
  }

  void cancel(Id id) {
    {
      const base::Mutex::Scoped lock{mutex_};
      cancelled_.push_back(id);
    }
    wake();
  }

 private:
  struct Job {
    Job(HttpRequest asked, Callback notify)
        : request(std::move(asked)),
          callback(std::move(notify)),
          pauses(request.retries, request.base, request.cap, request.max_retry_after) {}

    HttpRequest request;
    Callback callback;
    RetryPauses pauses;
    std::uint32_t attempts = 0;
    std::unique_ptr<Transfer> transfer;  // While it runs.
  };
  using Jobs = std::map<Id, std::unique_ptr<Job>>;
  struct FreeMulti {
    void operator()(CURLM* multi) const noexcept { ::curl_multi_cleanup(multi); }
  };

  void run() {
    for (;;) {
      if (!take_orders()) break;
      start_transfers();
      int running = 0;
      ::curl_multi_perform(multi_.get(), &running);
      if (collect()) continue;  // A slot is free, or a callback made a request.
      ::curl_multi_poll(multi_.get(), nullptr, 0, poll_time(), nullptr);
    }
    // Callbacks may have made more.
    do {
      while (!jobs_.empty()) end_cancelled(jobs_.begin()->first);
      take_orders();
    } while (!jobs_.empty());
  }

  // Until the next retry; at most a minute, at least a millisecond: a pause is never cut short.
  [[nodiscard]] int poll_time() const {
    constexpr std::chrono::milliseconds longest{60'000};
    if (waiting_.empty() || running_.size() >= options_.connections) {
      return static_cast<int>(longest.count());
    }
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(waiting_.begin()->first - options_.now());
    return static_cast<int>(std::clamp(left, std::chrono::milliseconds{0}, longest).count());
  }

  // False: the client is being destroyed.
  bool take_orders() {
    std::deque<std::pair<Id, std::unique_ptr<Job>>> arrived;
    std::vector<Id> cancelled;
    bool stopping = false;
    {
      const base::Mutex::Scoped lock{mutex_};
      std::swap(arrived, arrived_);
      std::swap(cancelled, cancelled_);
      stopping = stopping_;
    }
    for (auto& [id, job] : arrived) {
      jobs_.emplace(id, std::move(job));
      ready_.push_back(id);
    }
    for (const Id id : cancelled) end_cancelled(id);
    return !stopping;
  }

  void start_transfers() {
    const base::BootTime now = options_.now();
    while (!waiting_.empty() && waiting_.begin()->first <= now) {
      ready_.push_back(waiting_.begin()->second);
      waiting_.erase(waiting_.begin());
    }
    while (!ready_.empty() && running_.size() < options_.connections) {
      const Id id = ready_.front();
      ready_.pop_front();
      const auto found = jobs_.find(id);
      if (found == jobs_.end()) continue;  // Cancelled.
      Job& job = *found->second;
      ++job.attempts;
      job.transfer = std::make_unique<Transfer>(job.request, options_);
      running_.emplace(job.transfer->handle(), id);
      ::curl_multi_add_handle(multi_.get(), job.transfer->handle());
    }
  }

  // True: some transfer has ended.
  bool collect() {
    bool any = false;
    int left = 0;
    while (const CURLMsg* const message = ::curl_multi_info_read(multi_.get(), &left)) {
      if (message->msg != CURLMSG_DONE) continue;
      any = true;
      // The message is gone once the handle is removed.
      const CURLcode code = message->data.result;
      const Id id = running_.at(message->easy_handle);
      Job& job = *jobs_.at(id);
      HttpResult result = job.transfer->result(code);
      drop_transfer(job);
      if (const auto pause = pause_after(job, result)) {
        waiting_.emplace(options_.now() + *pause, id);
      } else {
        end(id, std::move(result));
      }
    }
    return any;
  }

  std::optional<std::chrono::nanoseconds> pause_after(Job& job, const HttpResult& result) {
    std::optional<std::chrono::seconds> retry_after;
    if (result) {
      if (!is_transient(result->status)) return std::nullopt;
      const auto header = result->headers.find("retry-after");
      if (header != result->headers.end()) {
        retry_after = parse_retry_after(header->second, options_.wall_time());
      }
    } else if (result.error().kind != HttpError::Kind::connect &&
               result.error().kind != HttpError::Kind::timeout) {
      return std::nullopt;
    }
    return job.pauses.next(retry_after, random_);
  }

  void drop_transfer(Job& job) {
    if (!job.transfer) return;
    running_.erase(job.transfer->handle());
    ::curl_multi_remove_handle(multi_.get(), job.transfer->handle());
    job.transfer.reset();
  }

  void end_cancelled(Id id) {
    const auto found = jobs_.find(id);
    if (found == jobs_.end()) return;
    drop_transfer(*found->second);
    std::erase_if(waiting_, [id](const auto& one) { return one.second == id; });
    HttpError error{.kind = HttpError::Kind::cancelled, .message = "the request was cancelled"};
    end(id, std::unexpected(std::move(error)));
  }

  void end(Id id, HttpResult result) {
    const auto found = jobs_.find(id);
    const std::unique_ptr<Job> job = std::move(found->second);
    jobs_.erase(found);
    {
      const base::Mutex::Scoped lock{mutex_};
      --unfinished_;
    }
    if (result) {
      result->attempts = job->attempts;
    } else {
      result.error().attempts = job->attempts;
    }
    job->callback(std::move(result));
  }

  // Of the thread.
  HttpClientOptions options_;
  std::mt19937_64 random_;
  const std::unique_ptr<CURLM, FreeMulti> multi_;
  Jobs jobs_;             // That have not ended.
  std::deque<Id> ready_;  // For a slot; may have some that were cancelled.
  std::map<CURL*, Id> running_;
  std::multimap<base::BootTime, Id> waiting_;  // For the end of their pause.

  base::Mutex mutex_;
  std::deque<std::pair<Id, std::unique_ptr<Job>>> arrived_ TENURE_GUARDED_BY(mutex_);
  std::vector<Id> cancelled_ TENURE_GUARDED_BY(mutex_);
  std::size_t unfinished_ TENURE_GUARDED_BY(mutex_) = 0;
  Id last_id_ TENURE_GUARDED_BY(mutex_) = 0;
  bool stopping_ TENURE_GUARDED_BY(mutex_) = false;

  base::ThreadGroup thread_;  // Last: it uses the rest.
};

HttpClient::HttpClient(HttpClientOptions options)
    : loop_(std::make_unique<Loop>(std::move(options))) {}
HttpClient::~HttpClient() = default;

HttpClient::Id HttpClient::start(HttpRequest request, Callback callback) {
  return loop_->start(std::move(request), std::move(callback));
}
void HttpClient::cancel(Id id) { loop_->cancel(id); }
void HttpClient::wake() { loop_->wake(); }

HttpResult HttpClient::get(HttpRequest request) {
  std::mutex mutex;
  std::condition_variable ended;
  std::optional<HttpResult> result;
  start(std::move(request), [&](HttpResult answer) {
    // Notified under the lock: these are gone when the waiter has seen the result.
    const std::scoped_lock lock{mutex};
    result = std::move(answer);
    ended.notify_one();
  });
  std::unique_lock lock{mutex};
  ended.wait(lock, [&] { return result.has_value(); });
  // NOLINTNEXTLINE(bugprone-unchecked-optional-access): waited for above.
  return std::move(result).value();
}

}  // namespace tenure::net
