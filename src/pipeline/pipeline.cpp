#include "tenure/pipeline.hpp"

#include "pipeline/crew.hpp"

namespace tenure {

using pipeline::Index;
using pipeline::Plan;
using pipeline::State;

namespace {

TaskEnd end_of(const Plan& plan, Index task) { return pipeline::end_of(plan.word(task).state()); }

}  // namespace

std::string_view text_of(TaskEnd end) noexcept {
  switch (end) {
    case TaskEnd::done: return "done";
    case TaskEnd::failed: return "failed";
    case TaskEnd::blocked: return "blocked";
    case TaskEnd::skipped: return "skipped";
    case TaskEnd::cancelled: return "cancelled";
  }
  return "";
}

void PipelineObserver::retries(TaskId /*task*/, unsigned /*attempt*/,
                               std::chrono::nanoseconds /*delay*/) {}

Pipeline::Pipeline(PipelineOptions options)
    : crew_(std::make_shared<pipeline::Crew>(std::move(options))) {}
Pipeline::~Pipeline() = default;

TaskId Pipeline::add_task(std::string_view name, detail::Work work, const TaskOptions& options) {
  return {crew_->add(name, std::move(work), options)};
}
TaskId Pipeline::add_task(detail::Work work, std::span<const TaskId> after) {
  return {crew_->add(std::move(work), after)};
}

bool Pipeline::remove(TaskId task, Dependents dependents) {
  return crew_->remove(task.value, dependents);
}
bool Pipeline::remove(std::string_view name, Dependents dependents) {
  const std::optional<Index> task = crew_->find(name);
  return task && crew_->remove(*task, dependents);
}

void Pipeline::pause() { crew_->pause(); }
void Pipeline::resume() { crew_->resume(); }
void Pipeline::cancel(Running running) { crew_->cancel(running); }
void Pipeline::set_concurrency(unsigned concurrency) { crew_->set_concurrency(concurrency); }
void Pipeline::observe(PipelineObserver* observer) { crew_->observe(observer); }
void Pipeline::prepare() { crew_->prepare(); }

PipelineResult Pipeline::run() {
  crew_->run();
  return PipelineResult{crew_};
}

std::optional<TaskId> Pipeline::find(std::string_view name) const {
  const std::optional<Index> task = crew_->find(name);
  return task ? std::optional<TaskId>{TaskId{*task}} : std::nullopt;
}
std::string Pipeline::name(TaskId task) const { return crew_->name(task.value); }

bool PipelineResult::ok() const { return count(TaskEnd::done) == crew_->plan().size(); }

std::size_t PipelineResult::count(TaskEnd end) const {
  std::size_t found = 0;
  for (Index task = 0; task < crew_->plan().size(); ++task) {
    if (end_of(crew_->plan(), task) == end) ++found;
  }
  return found;
}

std::vector<TaskId> PipelineResult::tasks(TaskEnd end) const {
  std::vector<TaskId> found;
  for (Index task = 0; task < crew_->plan().size(); ++task) {
    if (end_of(crew_->plan(), task) == end) found.push_back({task});
  }
  return found;
}

TaskEnd PipelineResult::end(TaskId task) const { return end_of(crew_->plan(), task.value); }
std::string PipelineResult::name(TaskId task) const { return crew_->name(task.value); }

std::optional<TaskId> PipelineResult::cause(TaskId task) const {
  const Plan::Word word = crew_->plan().word(task.value);
  if (word.state() != State::blocked) return std::nullopt;
  return TaskId{word.high()};
}

std::exception_ptr PipelineResult::error(TaskId task) const { return crew_->error(task.value); }
std::uint64_t PipelineResult::observer_errors() const { return crew_->observer_errors(); }

}  // namespace tenure
