// Children: starts that a workflow asked for.
#include "flow/children.hpp"
#include "flow/core.hpp"
#include "tenure/detail/saturating.hpp"

namespace tenure::flow {
namespace {

// What a workflow is told of a start that was refused; nothing: it is tried again, or not needed.
std::optional<ErrorInfo> refusal_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const ConcurrencyLimit& full) {
    return ErrorInfo{.type = "concurrency-limit", .code = {}, .message = full.what()};
  } catch (const AlreadyStarted& taken) {
    return ErrorInfo{.type = "already-started", .code = {}, .message = taken.what()};
  } catch (const BadRequest& bad) {
    return ErrorInfo{.type = "bad-request", .code = {}, .message = bad.what()};
  } catch (...) {
    return std::nullopt;
  }
}

bool is_store_error(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const StoreError&) {
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace

// The child's id is always the same, and its record names the operation that started it: a start
// that is repeated after a crash finds it. The guards let it start only while this engine has the
// parent, and the parent has not ended: its end then knows of the child.
void Core::start_child(const ChildStart& child) {
  const ParentLink link{.id = child.parent, .key = child.key};
  const auto answer = [self = shared_from_this(), child](const std::exception_ptr& error) {
    if (self->stopping()) return;
    if (!error) {
      self->offer(child.parent, {Event::Child{.key = child.key, .started = true, .value = {}}});
    } else if (const std::optional<ErrorInfo> why = refusal_of(error)) {
      self->offer(child.parent,
                  {Event::Child{.key = child.key, .started = false, .value = why->text()}});
    } else if (is_store_error(error)) {
      self->post_at(
          detail::saturating_add(self->store_->latest_now(), std::chrono::milliseconds{100}),
          [self, child] { self->start_child(child); });
    }  // Else the parent has ended, or is another engine's.
  };
  if (!owns(partition_of(child.parent), child.reign)) return;
  StartExtra extra;
  extra.parent = text_of(link);
  extra.root = child.root;
  extra.only_if =
      Guard::unchanged(keys::record(partition_of(child.parent), child.parent), child.record);
  extra.guards = child.reign->guards;
  extra.exists = [answer, link, id = child.id](const Entry& record) {
    if (parse_parent(parsed_record(record).parent) == link) {
      answer(nullptr);
    } else {
      answer(std::make_exception_ptr(AlreadyStarted("there is already a workflow '" + id +
                                                    "', which is not a child of '" + link.id +
                                                    "': use another id")));
    }
  };
  StartOptions options;
  options.id = child.id;
  options.deadline = child.deadline;
  options.tags = child.tags;
  try {
    start(
        child.type, child.input, std::move(options),
        [answer](const std::optional<Run>& /*run*/, const std::exception_ptr& error) {
          answer(error);
        },
        std::move(extra));
  } catch (...) {
    answer(std::current_exception());
  }
}

}  // namespace tenure::flow
