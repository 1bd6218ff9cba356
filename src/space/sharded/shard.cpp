#include "space/sharded/shard.hpp"

#include <utility>

#include "tenure/error.hpp"

namespace tenure::sharded {

std::shared_ptr<const Shard::Parts> Shard::parts() noexcept {
  const base::Mutex::Scoped lock{mutex_};
  return parts_;
}

std::shared_ptr<const Shard::Parts> Shard::ready() noexcept {
  std::shared_ptr<const Parts> now = parts();
  if (now == nullptr || now->gate->failed.load(std::memory_order_relaxed)) return nullptr;
  if (!now->space->usable()) return nullptr;
  return now;
}

void Shard::open_store() {
  if (!failure_.empty() && std::chrono::steady_clock::now() - failed_at_ < retry_after) {
    throw StoreError(failure_);
  }
  if (store_ == nullptr) store_ = source_.open();
}

void Shard::fail(const std::exception& error) {
  const bool known = failure_ == error.what();
  if (!known) {
    failure_ = unusable(error.what());
    failed_at_ = std::chrono::steady_clock::now();
  }
  throw StoreError(failure_);
}

std::shared_ptr<const Shard::Parts> Shard::prepare(bool again) {
  const base::Mutex::Scoped lock{opening_};
  if (!again) {  // Another thread may have done it meanwhile.
    if (std::shared_ptr<const Parts> now = ready()) return now;
  }
  {
    const base::Mutex::Scoped inner{mutex_};
    if (closed_) throw Closed("this space is closed: open it again");
  }
  try {
    open_store();
    Parts made;
    made.store = store_;
    made.map = std::make_shared<const StoredMap>(read_map(*store_, name()));
    made.gate = std::make_shared<const stored::Gate>(made.map->guard());
    const std::shared_ptr<const Parts> old = parts();
    const bool usable = old != nullptr && old->space->usable();
    made.space = usable ? old->space : make_space_(store_);
    failure_.clear();
    auto result = std::make_shared<const Parts>(std::move(made));
    const base::Mutex::Scoped inner{mutex_};
    if (closed_) throw Closed("this space is closed: open it again");
    parts_ = result;
    return result;
  } catch (const Closed&) {
    throw;
  } catch (const std::exception& error) {
    fail(error);
  }
}

StoredMap Shard::look() {
  if (!exists(source_)) return {};
  try {
    return read_map(*source_.open(), name());
  } catch (const std::exception& error) {
    throw StoreError(unusable(error.what()));
  }
}

std::string Shard::unusable(std::string_view why) const {
  return "shard '" + name() + "' (" + shown() +
         ") cannot be used, so requests for the paths in it fail: " + std::string{why};
}

std::shared_ptr<stored::StoredSpace> Shard::close() noexcept {
  const base::Mutex::Scoped lock{mutex_};
  closed_ = true;
  return parts_ != nullptr ? parts_->space : nullptr;
}

void Shard::end() noexcept {
  threads_.reset();
  std::shared_ptr<const Parts> last;
  {
    const base::Mutex::Scoped lock{mutex_};
    last.swap(parts_);
  }
  const base::Mutex::Scoped lock{opening_};
  store_.reset();
}

std::shared_ptr<stored::StoredSpace> Shard::opened() noexcept {
  const std::shared_ptr<const Parts> now = parts();
  return now != nullptr ? now->space : nullptr;
}

}  // namespace tenure::sharded
