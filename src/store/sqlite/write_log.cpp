#include "store/sqlite/write_log.hpp"

#include <algorithm>
#include <cstring>

namespace tenure::sqlite {

void WriteLog::add(std::string_view key, std::uint64_t revision) noexcept {
  const std::uint64_t index = count_.load();
  Slot& slot = slot_[index % slots];
  slot.revision.store(revision, std::memory_order_release);
  slot.size.store(key.size(), std::memory_order_release);
  key = key.substr(0, max_key);
  for (std::size_t at = 0; at < key.size(); at += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, key.data() + at, std::min(sizeof word, key.size() - at));
    slot.key[at / sizeof word].store(word, std::memory_order_release);
  }
  count_.store(index + 1);
}

bool WriteLog::read(std::uint64_t index, Entry& entry) const {
  const Slot& slot = slot_[index % slots];
  entry.revision = slot.revision.load(std::memory_order_acquire);
  const std::uint64_t size = slot.size.load(std::memory_order_acquire);
  entry.whole = size <= max_key;
  entry.key.resize(std::min<std::size_t>(size, max_key));
  for (std::size_t at = 0; at < entry.key.size(); at += sizeof(std::uint64_t)) {
    const std::uint64_t word = slot.key[at / sizeof word].load(std::memory_order_acquire);
    std::memcpy(entry.key.data() + at, &word, std::min(sizeof word, entry.key.size() - at));
  }
  // Entry index + slots uses the same slot, and its writer may have begun to overwrite it.
  return count_.load() < index + slots;
}

}  // namespace tenure::sqlite
