#include "bench/stored/redis.hpp"

#include <hiredis/hiredis.h>

#include <stdexcept>
#include <string_view>

namespace tenure::bench::stored {
namespace {

constexpr auto compare_and_delete =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) "
    "else return 0 end";
constexpr auto key = "book";
constexpr auto token = "6c0e1f6a94d2";

struct FreeReply {
  void operator()(redisReply* reply) const noexcept { freeReplyObject(reply); }
};
using Reply = std::unique_ptr<redisReply, FreeReply>;

template <class... Args>
Reply command(redisContext* connection, const char* format, Args... args) {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-vararg): that is how it is called.
  Reply reply{static_cast<redisReply*>(redisCommand(connection, format, args...))};
  if (reply == nullptr) throw std::runtime_error("Redis is gone");
  if (reply->type == REDIS_REPLY_ERROR) throw std::runtime_error(reply->str);
  return reply;
}

}  // namespace

void Redis::Disconnect::operator()(redisContext* context) const noexcept { redisFree(context); }

std::unique_ptr<Redis> Redis::start() {
  return kit::Redis::available() ? std::unique_ptr<Redis>{new Redis} : nullptr;
}

Redis::Redis() : connection_(redisConnect("127.0.0.1", server_.port())) {
  if (connection_ == nullptr || connection_->err != 0) throw std::runtime_error("Redis is gone");
  script_ = command(connection_.get(), "SCRIPT LOAD %s", compare_and_delete)->str;
}

void Redis::lock() {
  const Reply reply = command(connection_.get(), "SET %s %s NX PX 30000", key, token);
  if (reply->type != REDIS_REPLY_STATUS) throw std::runtime_error("Redis: the key is taken");
}

void Redis::unlock() {
  const Reply reply = command(connection_.get(), "EVALSHA %s 1 %s %s", script_.c_str(), key, token);
  if (reply->integer != 1) throw std::runtime_error("Redis: the key was not ours");
}

}  // namespace tenure::bench::stored
