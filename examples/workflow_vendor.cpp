// At most three workflows call a vendor at once. The permits are a lock of the space: first come,
// first served, without polling, in one queue with ordinary processes that use the same path.
#include <atomic>
#include <chrono>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "tenure/claim.hpp"
#include "tenure/flow.hpp"

namespace {

std::atomic<int> inside{0};
std::atomic<int> most{0};

int call_vendor(int request) {
  const int now = ++inside;
  int seen = most;
  while (seen < now && !most.compare_exchange_weak(seen, now)) {
  }
  std::this_thread::sleep_for(std::chrono::milliseconds{2});
  --inside;
  return 10 * request;
}

tenure::Flow<int> vendor(tenure::Context& ctx, int request) {
  const tenure::Claim permit = tenure::Path::of("vendor-api").permits(3);
  const tenure::FlowHold hold = co_await ctx.lock(permit);
  const int answer = co_await ctx.run("call", call_vendor, request);
  co_await ctx.release(hold);  // Or when the workflow ends, however it ends.
  co_return answer;
}

}  // namespace

int main() {
  tenure::Engine engine{tenure::store("memory:")};
  engine.define("vendor", vendor);
  std::vector<tenure::Run> runs;
  for (int i = 1; i <= 12; ++i) runs.push_back(engine.start("vendor", i));
  int sum = 0;
  for (const tenure::Run& run : runs) sum += run.result<int>();
  std::cout << "12 answers, sum " << sum << "; never more than three at once: " << std::boolalpha
            << (most <= 3) << '\n';
}
