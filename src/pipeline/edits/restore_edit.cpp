#include <fcntl.h>

#include <cerrno>
#include <functional>
#include <nlohmann/json.hpp>
#include <system_error>

#include "pipeline/edits/protocol.hpp"

namespace tenure::pipeline {
namespace {

using Outcome = EditReport::Outcome;

class Restorer {
 public:
  Restorer(Disk& disk, const EditNames& names, const Record& record, const FilePath& kept)
      : disk_(disk), names_(names), record_(record), kept_(kept) {}

  EditReport run() {
    original_ = read_file(names_.name("original"));
    edited_ = read_file(names_.name("edited"));
    const Outcome outcome = put_back_original();
    disk_.sync_directory(record_.file.parent_path());
    if (is_there(record_.side)) {
      // The exchange before the removal: else the name of the original could be what is removed.
      disk_.sync_directory(record_.side.parent_path());
      disk_.remove(record_.side);
      disk_.sync_directory(record_.side.parent_path());
    }
    EditReport report{.file = record_.file, .outcome = outcome};
    if (outcome == Outcome::conflict) {
      report.kept = kept_;
      report.message = "'" + record_.file.string() +
                       "' was changed by somebody else while it was edited: it was left as it is, "
                       "and the original is kept as '" +
                       kept_.string() + "'";
    } else if (outcome == Outcome::copied) {
      report.message =
          "'" + record_.file.string() +
          "' was restored from its copy, because its original inode is gone: hard links "
          "to it are not restored";
    }
    disk_.remove(names_.name("journal"));
    disk_.sync_directory(names_.directory);
    remove_leftovers(disk_, names_);
    return report;
  }

 private:
  // Whether the file is what we wrote, or as the original was: nobody else's version gets lost.
  [[nodiscard]] bool is_ours(const FilePath& path) const {
    const std::optional<std::string> bytes = read_file(path);
    return bytes && (bytes == edited_ || bytes == original_);
  }

  [[nodiscard]] bool is_original(const std::optional<Identity>& file) const {
    return file && file->inode == record_.original.inode;
  }

  Outcome put_back_original() {
    const auto file = identity_of(record_.file);
    const bool side_is_original = is_original(identity_of(record_.side));
    // The number of an original that was removed may be used again, by a file of ours.
    const bool reused = edited_ != original_ && read_file(record_.file) == edited_;
    if (is_original(file) && !reused) return Outcome::restored;
    if (!side_is_original) {
      const std::optional<std::string> bytes = read_file(record_.file);
      if (file && bytes && bytes == original_) return Outcome::restored;
      if (file && !is_ours(record_.file)) return keep(names_.name("original"));
      if (!file && is_there(record_.file)) return keep(names_.name("original"));
      make_new_original();
    }
    if (!is_there(record_.file)) {
      disk_.put_back(record_.side, record_.file);
    } else if (is_ours(record_.file)) {
      disk_.exchange(record_.side, record_.file);
      if (!is_ours(record_.side)) {  // Written between the look and the exchange.
        disk_.exchange(record_.side, record_.file);
        return keep(record_.side);
      }
    } else {
      return keep(record_.side);
    }
    return side_is_original ? Outcome::restored : Outcome::copied;
  }

  // A side file with the bytes and the metadata of the original.
  void make_new_original() {
    if (!original_) {
      throw std::system_error(ENOENT, std::generic_category(),
                              "read the copy '" + names_.name("original").string() + "'");
    }
    const FilePath copy = names_.name("original");
    const Descriptor like{::open(copy.c_str(), O_RDONLY | O_CLOEXEC)};
    if (is_there(record_.side)) disk_.remove(record_.side);
    disk_.create(record_.side, *original_, like.number());
    disk_.sync(record_.side);
    disk_.sync_directory(record_.side.parent_path());
  }

  // Somebody else's version stays; the original, as it is now, goes to where it is kept.
  Outcome keep(const FilePath& original) {
    if (!is_there(kept_)) {
      const std::optional<std::string> bytes = read_file(original);
      if (!bytes) throw std::system_error(ENOENT, std::generic_category(), "read the original");
      const Descriptor like{::open(original.c_str(), O_RDONLY | O_CLOEXEC)};
      const FilePath draft = names_.name("kept");
      if (is_there(draft)) disk_.remove(draft);
      disk_.create(draft, *bytes, like.number());
      disk_.sync(draft);
      disk_.put_back(draft, kept_);
      disk_.sync_directory(kept_.parent_path());
    }
    return Outcome::conflict;
  }

  Disk& disk_;
  const EditNames& names_;
  const Record& record_;
  const FilePath& kept_;
  std::optional<std::string> original_;
  std::optional<std::string> edited_;
};

}  // namespace

EditReport restore_edit(Disk& disk, const EditNames& names, const Record& record,
                        const FilePath& kept) {
  try {
    return Restorer{disk, names, record, kept}.run();
  } catch (const std::system_error& error) {
    return {.file = record.file,
            .outcome = Outcome::failed,
            .message = "'" + record.file.string() + "' was not restored: " + error.what() +
                       ": remove the cause and run `tenure pipeline restore`"};
  }
}

void remove_leftovers(Disk& disk, const EditNames& names) {
  for (const std::string_view ending : {"draft", "side", "kept", "edited", "original"}) {
    if (is_there(names.name(ending))) disk.remove(names.name(ending));
  }
}

std::string text_of(const Record& record) {
  // Bytes, not text: a path may be any of them.
  const auto bytes = [](const FilePath& path) {
    return nlohmann::json(std::vector<unsigned char>(path.native().begin(), path.native().end()));
  };
  return nlohmann::json{{"version", 1},
                        {"file", bytes(record.file)},
                        {"side", bytes(record.side)},
                        {"device", record.original.device},
                        {"inode", record.original.inode}}
      .dump();
}

std::optional<Record> parse_record(std::string_view text) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  try {
    if (!json.is_object() || json.at("version") != 1) return std::nullopt;
    const auto path = [&json](const char* key) {
      const auto bytes = json.at(key).get<std::vector<unsigned char>>();
      return FilePath{std::string{bytes.begin(), bytes.end()}};
    };
    return Record{.file = path("file"),
                  .side = path("side"),
                  .original = {.device = json.at("device").get<std::uint64_t>(),
                               .inode = json.at("inode").get<std::uint64_t>()}};
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

}  // namespace tenure::pipeline
