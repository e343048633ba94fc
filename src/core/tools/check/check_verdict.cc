// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "core/tools/check/check_verdict.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/base/log.h"
#include "core/tools/check/check_names.h"

namespace torii::check {
namespace {

constexpr double kLossWorthATell = 0.001;
constexpr double kLossThatHurts = 0.01;
constexpr double kLossThatStops = 0.5;
constexpr uint32_t kProbesEnough = 100;  // to say something of loss
constexpr uint64_t kSharedLeast = 64 << 20;
constexpr uint32_t kBufferLeast = 1 << 20;  // what a peer may have under way
// A silence at the end of multicast that is too long for losses by chance.
constexpr uint64_t kSilentNs = 12 * kCallGapNs;

std::string percent(double share) { return format_text("%.2f %%", 100 * share); }

class Judge {
 public:
  Judge(const std::vector<Participant>& all, const Plan& plan)
      : all_(all), plan_(plan), names_(all, plan) {}

  Verdict run() {
    missing_processes();
    for (uint32_t place = 0; place < plan_.places.size(); place++) {
      machine(place);
      const std::vector<uint32_t>& ranks = plan_.places[place];
      for (size_t i = 0; i < ranks.size(); i++)
        for (size_t j = i + 1; j < ranks.size(); j++) inside(ranks[i], ranks[j]);
    }
    for (size_t i = 0; i < plan_.places.size(); i++)
      for (size_t j = i + 1; j < plan_.places.size(); j++)
        between(plan_.places[i][0], plan_.places[j][0]);
    if (plan_.places.size() > 1) {
      for (uint32_t place = 0; place < plan_.places.size(); place++) interfaces(place);
      multicast();
    }
    tell();
    return out_;
  }

 private:
  // The same of several things becomes one finding.
  struct Kind {
    Severity severity;
    std::string what, value, remedy;
    auto operator<=>(const Kind&) const = default;
  };
  void find(Severity severity, const std::string& what, const std::string& where,
            const std::string& value, const std::string& remedy) {
    const Kind kind{severity, what, value, remedy};
    auto& list = found_[kind];
    if (list.empty()) order_.push_back(kind);
    if (std::find(list.begin(), list.end(), where) == list.end()) list.push_back(where);
  }

  const PairSeen* seen(uint32_t by, uint32_t of) const {
    if (!all_[by].reported) return nullptr;
    for (const PairSeen& pair : all_[by].seen.pairs)
      if (pair.rank == of) return &pair;
    return nullptr;
  }
  static bool reached(const PairSeen* pair) {
    return pair && std::any_of(pair->rails.begin(), pair->rails.end(),
                               [](const RailSeen& rail) { return rail.answered > 0; });
  }
  uint32_t heard(uint32_t by, uint32_t of, uint32_t rail) const {
    for (const ProbesHeard& one : all_[by].seen.heard)
      if (one.rank == of && one.rail == rail) return one.count;
    return 0;
  }
  // Something came from `of`, whether it was answered or not.
  bool hears(uint32_t by, uint32_t of) const {
    const PairSeen* pair = seen(by, of);
    if (pair && std::any_of(pair->silent.begin(), pair->silent.end(),
                            [](const SilentAddress& one) { return one.asked; }))
      return true;
    return heard(by, of, 0) > 0;
  }
  const Interface* owner(uint32_t rank, const std::string& address) const {
    for (const Interface& one : all_[rank].facts.interfaces)
      for (const std::string& own : one.addresses)
        if (own == address) return &one;
    return nullptr;
  }
  const Interface* named(uint32_t rank, const std::string& name) const {
    for (const Interface& one : all_[rank].facts.interfaces)
      if (one.name == name) return &one;
    return nullptr;
  }

  void missing_processes();
  void machine(uint32_t place);
  void inside(uint32_t a, uint32_t b);
  void between(uint32_t a, uint32_t b);
  void no_way(uint32_t a, uint32_t b);
  void direction(uint32_t from, uint32_t to, const PairSeen& pair);
  void loss(uint32_t from, uint32_t to, const RailSeen& rail, double share);
  void lengths(uint32_t from, uint32_t to, const RailSeen& rail);
  void silent(uint32_t from, uint32_t to, const PairSeen& pair);
  void interfaces(uint32_t place);
  // A direction of datagrams to all, between places.
  struct Direction {
    uint32_t from, to;
  };
  // " for 300 s", if it was looked at for so long.
  std::string multicast_time() const {
    const uint64_t seconds = plan_.multicast_ns / kMs / 1000;
    return seconds ? format_text(" for %llu s", static_cast<unsigned long long>(seconds)) : "";
  }
  std::string multicast_fault(const std::vector<Direction>& deaf, size_t pairs) const;
  void multicast();
  void tell();

  const std::vector<Participant>& all_;
  const Plan& plan_;
  Names names_;
  Verdict out_;
  std::map<Kind, std::vector<std::string>> found_;
  std::vector<Kind> order_;
  std::set<std::pair<uint32_t, std::string>> used_;   // interfaces of places that are on a way
  std::set<std::pair<uint32_t, std::string>> twins_;  // with an address that others have, too
  // An address of a place's interface that did not answer.
  struct Silence {
    uint32_t place;
    std::string interface, address, who;
    bool asked, otherwise;  // another address of this interface answered
  };
  std::vector<Silence> silent_;
  Summary outside_, local_;
  bool multicast_works_ = false;
};

void Judge::missing_processes() {
  for (uint32_t rank = 0; rank < all_.size(); rank++) {
    const Participant& one = all_[rank];
    if (!one.present) {
      find(Severity::failure, "torii-check on", names_.process(rank), one.why,
           "try to start a program there by the same remote shell or launcher; see --launch, "
           "--program and --deadline");
    } else if (!one.reported) {
      find(Severity::failure, "results of", names_.process(rank), "are missing: " + one.why,
           "look for what ended it there (dmesg, limits of memory and time), and try again");
    }
  }
}

void Judge::machine(uint32_t place) {
  const Facts& facts = all_[plan_.places[place][0]].facts;
  const std::string& name = names_.place(place);
  if (facts.attach != "allowed") {
    const size_t cut = facts.attach.find("; ");
    find(Severity::warning, "cross-memory attach on", name, facts.attach.substr(0, cut),
         cut == std::string::npos ? "allow process_vm_readv to processes of one user"
                                  : facts.attach.substr(cut + 2));
  }
  if (facts.shared_bytes == 0) {
    find(Severity::warning, "/dev/shm on", name, "is missing",
         "mount a tmpfs there; Torii needs none, but MPI libraries do");
  } else if (facts.shared_free < kSharedLeast) {
    find(Severity::warning, "/dev/shm on", name,
         format_text("has %llu KiB free", static_cast<unsigned long long>(facts.shared_free >> 10)),
         "remove what is left there, or make it larger (mount -o remount,size=1g /dev/shm; "
         "containers: --shm-size); Torii needs none, but MPI libraries do");
  }
  if (facts.receive_buffer < kBufferLeast && plan_.places.size() > 1)
    find(Severity::warning, "receive buffers on", name,
         format_text("sockets get %u KiB, so bursts are lost", facts.receive_buffer >> 10),
         "sysctl -w net.core.rmem_max=4194304 net.core.wmem_max=4194304");
  if (!facts.opens_network && plan_.places.size() > 1)
    find(
        Severity::failure, "processes of one node:", name,
        "they share no memory or no process numbers, as in containers, and a job on one node opens "
        "no network",
        "set TORII_DRIVERS=self,shm,udp, or let the containers share what they do not");
  const bool has_network =
      std::any_of(facts.endpoints.begin(), facts.endpoints.end(),
                  [](const Endpoint& end) { return end.network && end.why.empty(); });
  for (const Endpoint& end : facts.endpoints) {
    if (end.why.empty()) continue;
    const bool needed =
        end.network ? plan_.places.size() > 1 && !has_network : plan_.places[place].size() > 1;
    find(needed ? Severity::failure : Severity::warning, "driver " + end.driver + " on", name,
         "does not open: " + end.why, "see torii-info --drivers there");
  }
}

void Judge::inside(uint32_t a, uint32_t b) {
  const PairSeen *there = seen(a, b), *back = seen(b, a);
  if (!there && !back) return;
  const std::string pair = names_.process(a) + " and " + names_.process(b);
  if (!reached(there) && !reached(back)) {
    find(Severity::failure, "shared memory between", pair,
         there && !there->note.empty() ? there->note : "no frame arrives", "see torii-info there");
    return;
  }
  for (const PairSeen* one : {there, back}) {
    if (!one) continue;
    if (!one->note.empty())
      find(Severity::warning, "between", pair, one->note,
           "messages are copied through shared memory; nothing else suffers");
    direction(one == there ? a : b, one == there ? b : a, *one);
  }
}

void Judge::between(uint32_t a, uint32_t b) {
  const PairSeen *there = seen(a, b), *back = seen(b, a);
  if (!there && !back) return;
  if (!reached(there) && !reached(back)) return no_way(a, b);
  if (there) direction(a, b, *there);
  if (back) direction(b, a, *back);
}

void Judge::no_way(uint32_t a, uint32_t b) {
  std::string tried;
  const PairSeen* pair = seen(a, b) ? seen(a, b) : seen(b, a);
  for (const SilentAddress& one : pair->silent)
    tried += (tried.empty() ? "" : ", ") + one.address +
             (one.interface.empty() ? " (no route)" : " (by " + one.interface + ")");
  const std::string na = names_.place(plan_.place_of(a)), nb = names_.place(plan_.place_of(b));
  std::string value = "no way; tried " + (tried.empty() ? "nothing: " + pair->note : tried);
  if (hears(a, b) != hears(b, a)) {
    const std::string& deaf = hears(a, b) ? nb : na;
    const std::string& heard = hears(a, b) ? na : nb;
    value += "; packets of " + deaf + " arrive at " + heard + ", but not those of " + heard +
             " at " + deaf;
  }
  find(Severity::failure, "network between", na + " and " + nb, value,
       "let UDP pass between them (firewall, security group, VLAN), look after cables and routes; "
       "TORII_UDP_INTERFACES names other interfaces");
}

void Judge::direction(uint32_t from, uint32_t to, const PairSeen& pair) {
  const bool network = plan_.place_of(from) != plan_.place_of(to);
  for (const RailSeen& rail : pair.rails) {
    const bool known = all_[to].reported && rail.sent > 0;
    const uint32_t arrived = std::min(heard(to, from, rail.rail), rail.sent);
    const double share = known ? 1 - static_cast<double>(arrived) / rail.sent : 0;
    out_.ways.rows.push_back(
        {names_.process(from), names_.process(to), pair.driver, rail.interface, rail.address,
         microseconds(rail.least_ns), microseconds(rail.median_ns), known ? percent(share) : "?",
         std::to_string(rail.sent), rail.mtu ? std::to_string(rail.mtu) : "-"});
    (network ? outside_ : local_).add(pair.driver, rail, known ? rail.sent : 0, arrived);
    if (!network || rail.answered == 0) continue;
    used_.insert({plan_.place_of(from), rail.interface});
    if (const Interface* far = owner(to, rail.address))
      used_.insert({plan_.place_of(to), far->name});
    if (known) loss(from, to, rail, share);
    if (share < kLossThatStops) lengths(from, to, rail);
  }
  if (network) silent(from, to, pair);
}

void Judge::loss(uint32_t from, uint32_t to, const RailSeen& rail, double share) {
  if (share < kLossWorthATell || rail.sent < kProbesEnough) return;
  const Severity severity = share >= kLossThatStops   ? Severity::failure
                            : share >= kLossThatHurts ? Severity::warning
                                                      : Severity::note;
  find(
      severity, "loss from",
      names_.process(from) + " to " + names_.process(to) + " by " + rail.interface,
      format_text("%s of %u packets", percent(share).c_str(), rail.sent),
      "look for errors and drops there (ip -s link, ethtool -S), bad cables, an overloaded switch");
}

void Judge::lengths(uint32_t from, uint32_t to, const RailSeen& rail) {
  const Interface *here = named(from, rail.interface), *there = owner(to, rail.address);
  const bool differ = here && there && here->mtu != there->mtu;
  std::string ends;
  if (differ)
    ends = format_text("; %s has MTU %u, %s of %s has %u", rail.interface.c_str(), here->mtu,
                       there->name.c_str(), names_.process(to).c_str(), there->mtu);
  const uint32_t least = differ ? std::min(here->mtu, there->mtu) : 1500;
  const std::string where =
      names_.process(from) + " to " + names_.process(to) + " by " + rail.interface;
  const std::string remedy = format_text(
      "give all interfaces of a network one MTU (ip link set DEVICE mtu %u), or set "
      "TORII_UDP_MTU=%u for all processes",
      least, least);
  if (rail.longest < rail.longest_sent) {
    find(Severity::failure, "long packets from", where,
         format_text("frames of %u bytes do not arrive, ", rail.longest_sent) +
             (rail.longest > kProbeBytes ? format_text("those of %u do", rail.longest)
                                         : std::string("nor do those of 512")) +
             ends,
         remedy);
  } else if (differ) {
    find(Severity::warning, "MTU of", where, "the ends differ" + ends, remedy);
  }
}

// Notes the silent addresses of a process that is reached otherwise.
void Judge::silent(uint32_t from, uint32_t to, const PairSeen& pair) {
  for (const SilentAddress& one : pair.silent) {
    const Interface* far = owner(to, one.address);
    if (!far || !reached(&pair)) continue;
    const uint32_t there = plan_.place_of(to);
    if (owner(from, one.address)) {
      twins_.insert({there, far->name});
      continue;
    }
    const bool otherwise = std::any_of(pair.rails.begin(), pair.rails.end(), [&](const auto& rail) {
      const Interface* by = owner(to, rail.address);
      return by && by->name == far->name;
    });
    silent_.push_back({there, far->name, one.address, names_.process(from), one.asked, otherwise});
  }
}

void Judge::interfaces(uint32_t place) {
  const uint32_t rank = plan_.places[place][0];
  const std::string& name = names_.place(place);
  const auto tries_interfaces = [](const PairSeen& pair) {
    return !pair.silent.empty() ||
           std::any_of(pair.rails.begin(), pair.rails.end(),
                       [](const RailSeen& rail) { return !rail.address.empty(); });
  };
  const std::vector<PairSeen>& pairs = all_[rank].seen.pairs;
  if (!all_[rank].reported || std::none_of(pairs.begin(), pairs.end(), tries_interfaces)) return;
  for (const Interface& one : all_[rank].facts.interfaces) {
    const bool is_used = used_.contains({place, one.name});
    if (one.addresses.empty() || !one.wanted || is_used) continue;
    const std::string value = !one.up        ? "is down"
                              : !one.carrier ? "has no carrier"
                              : twins_.contains({place, one.name})
                                  ? "has an address that other nodes have as well"
                                  : "leads to no other node of the check";
    const bool harmless = !one.up || one.bridge || twins_.contains({place, one.name});
    find(harmless ? Severity::note : Severity::warning, one.name + " of", name,
         value + ": not used",
         harmless ? ""
                  : "look after its cable, its VLAN and the firewall; or leave it out "
                    "(TORII_UDP_INTERFACES)");
  }
  for (const Silence& one : silent_) {
    if (one.place != place || !used_.contains({place, one.interface})) continue;
    find(one.otherwise ? Severity::note : Severity::warning,
         one.interface + " of " + name + " does not answer", one.who,
         "by " + one.address + (one.asked ? ", from where packets come" : ""),
         one.otherwise ? "" : "look after cables, routes and firewalls between the two");
  }
}

// The directions in which nothing is heard tell what is most likely wrong.
std::string Judge::multicast_fault(const std::vector<Direction>& deaf, size_t pairs) const {
  if (deaf.size() == pairs)
    return "a filter, or a router between the nodes, which does not pass it on";
  const Direction first = deaf[0];
  if (std::all_of(deaf.begin(), deaf.end(),
                  [&](const Direction& one) { return one.from == first.from; }))
    return "what " + names_.place(first.from) +
           " sends to groups is filtered there, or at its port";
  if (std::all_of(deaf.begin(), deaf.end(),
                  [&](const Direction& one) { return one.to == first.to; }))
    return "the IGMP reports of " + names_.place(first.to) +
           ", or what is for it, are filtered there, or at its port";
  return "IGMP snooping without a querier; give the switches one, or end snooping";
}

void Judge::multicast() {
  std::vector<Direction> deaf;
  std::vector<std::string> deaf_texts, stopped;
  const uint64_t all_ms = plan_.multicast_ns / kMs;
  uint64_t first_stop_ms = all_ms;
  size_t pairs = 0;
  for (const auto& to : plan_.places) {
    const Observations& there = all_[to[0]].seen;
    const uint32_t place = plan_.place_of(to[0]);
    const std::string& name = names_.place(place);
    if (!all_[to[0]].reported) continue;
    if (!there.multicast) {
      find(Severity::warning, "multicast on", name, there.multicast_why,
           "broadcasts go to each node by itself");
      continue;
    }
    for (const auto& from : plan_.places) {
      if (from[0] == to[0] || !all_[from[0]].reported || !all_[from[0]].seen.multicast) continue;
      pairs++;
      const auto heard =
          std::find_if(there.multicast_heard.begin(), there.multicast_heard.end(),
                       [&](const MulticastHeard& one) { return one.rank == from[0]; });
      const std::string text = name + " does not hear " + names_.place(plan_.place_of(from[0]));
      if (heard == there.multicast_heard.end()) {
        deaf.push_back({plan_.place_of(from[0]), place});
        deaf_texts.push_back(text);
      } else if (heard->last_ms + kSilentNs / kMs < all_ms) {
        stopped.push_back(text);
        first_stop_ms = std::min<uint64_t>(first_stop_ms, heard->last_ms);
      }
    }
  }
  multicast_works_ = pairs > 0 && deaf.empty() && stopped.empty();
  constexpr char kUntilThen[] = "; until then broadcasts go to each node by itself";
  if (!deaf.empty())
    find(Severity::warning, "multicast between", "nodes",
         deaf.size() == pairs ? "no node hears another one" : Names::list(deaf_texts, 4),
         "let 239.192.0.0/14 pass; most likely: " + multicast_fault(deaf, pairs) + kUntilThen);
  if (!stopped.empty())
    find(Severity::warning, "multicast between", "nodes",
         format_text("after %llu s ", static_cast<unsigned long long>(first_stop_ms / 1000)) +
             Names::list(stopped, 4) + " any more",
         std::string("most likely a switch snoops IGMP without a querier, and forgets who has "
                     "joined; give it a querier, or end snooping") +
             kUntilThen);
}

void Judge::tell() {
  std::stable_sort(order_.begin(), order_.end(),
                   [](const Kind& a, const Kind& b) { return a.severity < b.severity; });
  for (const Kind& kind : order_)
    out_.findings.push_back(
        {kind.severity, kind.what + " " + Names::list(found_[kind], 8), kind.value, kind.remedy});
  out_.nodes = names_.table();
  out_.ways.name = "ways";
  out_.ways.columns = {
      "from",       "to",   "driver",     "interface", "to address", "least round trip, us",
      "median, us", "lost", "of packets", "path MTU"};
  if (const size_t pairs = plan_.places.size() * (plan_.places.size() - 1) / 2)
    out_.summary += format_text("%zu pair%s of nodes: ", pairs, pairs == 1 ? "" : "s") +
                    outside_.text() +
                    (multicast_works_ ? ", multicast works" + multicast_time() : "") + "\n";
  size_t local_pairs = 0;
  for (const auto& ranks : plan_.places) local_pairs += ranks.size() * (ranks.size() - 1) / 2;
  if (local_pairs)
    out_.summary +=
        format_text("%zu pair%s inside nodes: ", local_pairs, local_pairs == 1 ? "" : "s") +
        local_.text() + "\n";
}

}  // namespace

Verdict judge(const std::vector<Participant>& all, const Plan& plan) {
  return Judge(all, plan).run();
}

bool has(const Verdict& verdict, Severity severity) {
  return std::any_of(verdict.findings.begin(), verdict.findings.end(),
                     [&](const Finding& one) { return one.severity == severity; });
}

}  // namespace torii::check
