// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/tools/check/check_run.h"

#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <bit>

#include "core/base/log.h"

namespace torii::check {
namespace {

constexpr uint64_t kGapNs = kMs / 2;      // between two questions
constexpr uint64_t kSlowGapNs = kMs;      // while ways are looked for
constexpr uint64_t kSettleNs = 60 * kMs;  // further ways may be found after the first
constexpr uint64_t kLatestNs = 25 * kMs;  // before the end of a slot: answers are still to come
constexpr uint64_t kPollNs = 100000;  // without a sleep, after something was sent or has arrived
constexpr uint64_t kNapNs = 5 * kMs;
constexpr unsigned kTries = 8;  // of a length; some frames get lost
constexpr unsigned kCalls = 5;  // datagrams to all, at least
constexpr uint32_t kLengths[] = {8900, 4000, 2000, 1436, 1400, 1350, 1216, 512};

std::string without_port(const std::string& address) {
  std::string host = address.substr(0, address.rfind(':'));
  if (host.size() > 1 && host.front() == '[') host = host.substr(1, host.size() - 2);
  return host;
}

// The lengths to try, the longest first.
std::vector<uint32_t> lengths_for(uint32_t longest) {
  std::vector<uint32_t> out = {longest};
  for (const uint32_t length : kLengths)
    if (length < longest) out.push_back(length);
  return out;
}

}  // namespace

Run::Run(uint32_t local_peers, Facts* facts) {
  for (const std::string& name : chosen_drivers()) {
    const std::string bare = name.substr(name.rfind(':') + 1);
    if (bare == "self") continue;
    Endpoint& end = facts->endpoints.emplace_back();
    end.driver = bare;
    const DriverInfo* info = find_driver(name, &end.why);
    if (!info) continue;
    end.network = info->network;
    std::unique_ptr<Prober> prober = Prober::open(*info, name, local_peers, &end.why);
    if (!prober) continue;
    end.why.clear();
    end.mtu = prober->caps().mtu;
    end.address = prober->address();
    probers_.push_back(std::move(prober));
  }
}

// Polls, and sleeps for a moment if nothing happens; not beyond `until_ns`.
bool Run::step(uint64_t until_ns) {
  unsigned events = 0;
  uint64_t now = clock_ns();
  for (const auto& prober : probers_) events += prober->poll(now);
  now = clock_ns();
  if (events) busy_ns_ = now;
  if (now >= until_ns) return !stopped_;
  if (now - busy_ns_ < kPollNs) {
    sched_yield();
    return !stopped_;
  }
  std::vector<pollfd> set;
  if (stop_ >= 0) set.push_back({stop_, POLLIN, 0});
  uint64_t nap_ns = std::min(until_ns - now, kNapNs);
  for (const auto& prober : probers_) {
    int fd = -1;
    const Status status = prober->arm(&fd);
    if (status == Status::ok) set.push_back({fd, POLLIN, 0});
    if (status == Status::again) return !stopped_;
    if (status == Status::unsupported) nap_ns = std::min(nap_ns, kPollNs);
  }
  const timespec nap = {0, static_cast<long>(nap_ns)};
  ppoll(set.data(), set.size(), &nap, nullptr);
  if (stop_ >= 0 && set[0].revents) stopped_ = true;
  return !stopped_;
}

bool Run::serve(uint64_t until_ns) {
  while (clock_ns() < until_ns)
    if (!step(until_ns)) return false;
  return true;
}

// One small question in each gap, or, as long as there are some to try and in turn with those, one
// of another length by each way. Before there is a way the driver is set looking for one.
void Run::ask(Prober& prober, uint32_t rank, bool settled, Turn* turn, uint64_t now) {
  const uint32_t rails = prober.rails(rank);
  if (!rails) {
    prober.ask(rank, kFirstRail, Probe::kBytes, now);
    return;
  }
  turn->small = !turn->small;
  if (!turn->small && settled && ask_long(prober, rank, rails, turn, now)) return;
  while (!(rails >> turn->rail & 1))
    turn->rail = static_cast<uint8_t>((turn->rail + 1) % kRailsMax);
  if (prober.ask(rank, turn->rail, Probe::kBytes, now))
    turn->rail = static_cast<uint8_t>((turn->rail + 1) % kRailsMax);
}

// By each way the next length that it has to try; a way may be found later than the others. False:
// none has one left.
bool Run::ask_long(Prober& prober, uint32_t rank, uint32_t rails, Turn* turn, uint64_t now) {
  const std::vector<uint32_t> lengths = lengths_for(prober.caps().mtu);
  bool asked = false;
  for (uint8_t rail = 0; rail < kRailsMax; rail++) {
    if (!(rails >> rail & 1)) continue;
    const uint32_t longest = prober.peer(rank).rails[rail].longest;
    size_t& tried = turn->tried[rail];
    while (tried < kTries * lengths.size() && lengths[tried % lengths.size()] <= longest) tried++;
    if (tried == kTries * lengths.size()) continue;
    if (prober.ask(rank, rail, lengths[tried % lengths.size()], now)) tried++;
    asked = true;
  }
  return asked;
}

// False: there is no way.
bool Run::measure(Prober& prober, uint32_t rank, uint64_t end_ns, PairSeen* out) {
  const Prober::Peer& peer = prober.peer(rank);
  uint64_t found_ns = 0;
  Turn turn;
  while (!stopped_ && clock_ns() + kLatestNs < end_ns && !peer.ended) {
    const uint64_t now = clock_ns();
    if (!found_ns && prober.rails(rank)) found_ns = now;
    const bool settled = found_ns && (!prober.network() || now - found_ns >= kSettleNs);
    ask(prober, rank, settled, &turn, now);
    busy_ns_ = now;
    const uint64_t next_ns = std::min(now + (settled ? kGapNs : kSlowGapNs), end_ns);
    while (!stopped_ && clock_ns() < next_ns) step(next_ns);
  }
  while (!stopped_ && clock_ns() < end_ns) step(end_ns);
  sum_up(prober, rank, turn, out);
  return !out->rails.empty() && !peer.ended;
}

void Run::sum_up(Prober& prober, uint32_t rank, const Turn& turn, PairSeen* out) {
  const uint32_t longest = prober.caps().mtu;
  const size_t all_tried = kTries * lengths_for(longest).size();
  Prober::Peer& peer = prober.peer(rank);
  const std::vector<PeerAddress> ways = prober.addresses(rank);
  for (uint8_t i = 0; i < kRailsMax; i++) {
    Prober::Rail& rail = peer.rails[i];
    if (!rail.sent) continue;
    RailSeen& seen = out->rails.emplace_back();
    seen.rail = i;
    seen.sent = rail.sent;
    seen.answered = static_cast<uint32_t>(rail.trip_ns.size());
    seen.longest_sent = turn.tried[i] == all_tried ? longest : 0;
    seen.longest = rail.longest;
    if (!rail.trip_ns.empty()) {
      std::sort(rail.trip_ns.begin(), rail.trip_ns.end());
      seen.least_ns = rail.trip_ns.front();
      seen.median_ns = rail.trip_ns[rail.trip_ns.size() / 2];
    }
    for (const PeerAddress& way : ways) {
      if (way.rail != i) continue;
      seen.interface = way.interface;
      seen.address = without_port(way.address);
      seen.mtu = way.mtu;
    }
    if (ways.empty()) seen.interface = prober.path(rank);
  }
  for (const PeerAddress& way : ways)
    if (!way.answers) out->silent.push_back({without_port(way.address), way.interface, way.asked});
}

// Tries the drivers in their order until one leads there.
PairSeen Run::meet(uint32_t rank, const Facts& facts, bool network, uint64_t end_ns) {
  PairSeen out;
  out.rank = rank;
  for (const auto& prober : probers_) {
    if (network && !prober->network()) continue;
    const auto end =
        std::find_if(facts.endpoints.begin(), facts.endpoints.end(),
                     [&](const Endpoint& one) { return one.driver == prober->name(); });
    if (end == facts.endpoints.end() || end->address.empty()) continue;
    out.driver = prober->name();
    const Status status = prober->connect(rank, end->address);
    const std::string& note = prober->peer(rank).note;
    if (!note.empty()) out.note += (out.note.empty() ? "" : "; ") + note;
    if (status != Status::ok) continue;
    if (measure(*prober, rank, end_ns, &out)) return out;
    out.note += (out.note.empty() ? "" : "; ") + prober->name() + ": no frame arrives";
  }
  if (out.driver.empty()) out.note = "both processes have no driver in common that leads there";
  return out;
}

bool Run::multicast(uint64_t end_ns, Observations* out) {
  const uint64_t begin = clock_ns(), all = end_ns - std::min(begin, end_ns);
  const uint64_t calls = std::max<uint64_t>(kCalls, all / kCallGapNs);
  for (uint64_t call = 0; call < calls; call++) {
    // The first after a while: not all begin at once.
    if (!serve(begin + all * (call + 1) / (calls + 3))) return false;
    for (const auto& prober : probers_)
      if (prober->network()) prober->tell_all();
  }
  if (!serve(end_ns)) return false;
  for (const auto& prober : probers_)
    for (uint32_t rank = 0; rank < prober->size(); rank++)
      if (const uint64_t last_ns = prober->peer(rank).heard_by_all_ns)
        out->multicast_heard.push_back(
            {rank, static_cast<uint32_t>((last_ns - std::min(begin, last_ns)) / kMs)});
  return true;
}

void Run::list_heard(Observations* out) {
  for (const auto& prober : probers_)
    for (uint32_t rank = 0; rank < prober->size(); rank++)
      for (uint32_t rail = 0; rail < kRailsMax; rail++)
        if (const uint32_t count = prober->peer(rank).rails[rail].heard)
          out->heard.push_back({rank, rail, count});
}

bool Run::check(uint32_t self, const std::vector<Participant>& all, const Plan& plan, int stop,
                Observations* out) {
  stop_ = stop;
  Secret secret{};
  for (size_t i = all.size(); i-- > 0;)
    if (all[i].present) secret = all[i].facts.dice;
  for (const auto& prober : probers_)
    prober->begin(self, static_cast<uint32_t>(all.size()), secret);
  const uint32_t place = plan.place_of(self);
  if (place == kNobody) return true;
  const std::vector<uint32_t>& here = plan.places[place];
  const auto number =
      static_cast<uint32_t>(std::find(here.begin(), here.end(), self) - here.begin());
  const bool first = number == 0 && plan.places.size() > 1;
  for (const auto& prober : probers_)
    if (first && prober->network()) out->multicast |= prober->join(&out->multicast_why);
  uint64_t end = clock_ns();
  for (uint32_t round = 0; round < plan.local_rounds; round++) {
    end += plan.local_slot_ns;
    const uint32_t partner = partner_of(number, static_cast<uint32_t>(here.size()), round);
    if (partner != kNobody)
      out->pairs.push_back(meet(here[partner], all[here[partner]].facts, false, end));
    if (!serve(end)) return false;
  }
  for (uint32_t round = 0; round < plan.rounds; round++) {
    end += plan.slot_ns;
    const uint32_t partner =
        first ? partner_of(place, static_cast<uint32_t>(plan.places.size()), round) : kNobody;
    if (partner != kNobody) {
      const uint32_t rank = plan.places[partner][0];
      out->pairs.push_back(meet(rank, all[rank].facts, true, end));
    }
    if (!serve(end)) return false;
  }
  end += plan.multicast_ns;
  if (!(first ? multicast(end, out) : serve(end))) return false;
  list_heard(out);
  return true;
}

}  // namespace torii::check
