// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// Drivers of cards that break the rules of their card: what the card or the kit notices of it. The
// messages of TNet's driver are changed on their way to the card.
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <cstring>

#include "conformance/rigs_nic.h"
#include "drivers/mailboxes.h"
#include "drivers/tnet/tnet.h"
#include "nic/tnet/regs.h"

namespace torii::kit {
namespace {

namespace regs = nic::tnet;

struct CardMessage {
  std::array<uint32_t, 4> descriptor;
  uint32_t bytes() const { return descriptor[1] * 4; }
  uint32_t target() const { return descriptor[2] << 2; }
};

// Changes a message. True: it is to go in two parts, the last bytes first.
using Tamper = bool (*)(CardMessage* message);

class TamperedCard final : public nic::Card {
 public:
  TamperedCard(std::unique_ptr<nic::Card> card, Tamper tamper)
      : card_(std::move(card)), tamper_(tamper) {}
  const nic::CardInfo& info() const override { return card_->info(); }
  nic::Liveness liveness() const override { return card_->liveness(); }
  void write32(uint32_t at, uint32_t value) override { card_->write32(at, value); }
  uint32_t read32(uint32_t at) override { return card_->read32(at); }
  void read(uint32_t at, void* to, size_t n) override { card_->read(at, to, n); }
  Status map(void* base, size_t n, uint32_t rights, uint64_t* address) override {
    return card_->map(base, n, rights, address);
  }
  void unmap(uint64_t address) override { card_->unmap(address); }
  std::span<std::byte> shared() override { return card_->shared(); }
  int interrupt() override { return card_->interrupt(); }

  // A message by stores: its descriptor is kept until its data come.
  void write(uint32_t at, const void* from, size_t) override {
    if (at == regs::kDestination) {
      std::memcpy(&kept_.descriptor, from, sizeof(kept_.descriptor));
      return;
    }
    const auto* const data = static_cast<const std::byte*>(from);
    for (const auto& [message, offset] : parts(kept_)) {
      card_->write(regs::kDestination, &message.descriptor, sizeof(message.descriptor));
      card_->write(regs::kWindow, data + offset, message.bytes());
    }
  }
  Status control(const nic::Control& in, nic::Control* out) override {
    return card_->control(in, out);
  }
  // One by DMA.
  void post(const nic::Control& in) override {
    CardMessage message;
    for (size_t i = 0; i < 4; i++) message.descriptor[i] = static_cast<uint32_t>(in.words[i]);
    for (const auto& [part, offset] : parts(message)) {
      nic::Control changed = in;
      for (size_t i = 0; i < 4; i++) changed.words[i] = part.descriptor[i];
      changed.words[4] += offset;
      card_->post(changed);
    }
  }

 private:
  std::vector<std::pair<CardMessage, uint32_t>> parts(CardMessage message) const {
    if (!tamper_(&message)) return {{message, 0}};
    constexpr uint32_t kLast = sizeof(MailTrailer) / 4;
    CardMessage last = message;
    message.descriptor[1] -= kLast;
    last.descriptor[1] = kLast;
    last.descriptor[2] += message.descriptor[1];
    return {{last, message.bytes()}, {message, 0}};
  }

  const std::unique_ptr<nic::Card> card_;
  const Tamper tamper_;
  CardMessage kept_{};
};

constexpr uint32_t kForeignNode = 0xfff0;  // that the process may not send to

bool is_honest(CardMessage*) { return false; }
bool goes_to_a_foreign_id(CardMessage* message) {
  message->descriptor[0] = (message->descriptor[0] & ~uint32_t{regs::kIdMask}) | kForeignNode;
  return false;
}
bool forgets_credits(CardMessage* message) {
  if (message->target() < Mailboxes::kBell) goes_to_a_foreign_id(message);
  return false;
}
bool names_a_wrong_slot(CardMessage* message) {
  message->descriptor[3] ^= 1u << 16;
  return false;
}
bool completes_before_the_data(CardMessage* message) {
  return !(message->descriptor[0] & regs::kTableMapped) && message->target() >= Mailboxes::kMail &&
         message->bytes() > sizeof(MailTrailer);
}

// Failures that a case finds; *report is then what cards and links have counted.
int find_tampering(Tamper tamper, const std::string& noticed_by, std::string* report) {
  std::shared_ptr<nic::Fabric> fabric;
  nic::FabricOptions options;
  options.nodes = 4;
  const OpenOnCard open = [tamper](std::unique_ptr<nic::Card> card, const DriverEnv& env,
                                   std::string* why) {
    return open_tnet(std::make_unique<TamperedCard>(std::move(card), tamper), env, why);
  };
  const Rig rig = nic_rig("tnet", options, 1, open, &fabric);
  testing::TestPartResultArray results;
  {
    const testing::ScopedFakeTestPartResultReporter intercept(
        testing::ScopedFakeTestPartResultReporter::INTERCEPT_ALL_THREADS, &results);
    for (const Case& c : all_cases())
      if (c.name == noticed_by) run_case(c, rig);
  }
  *report = fabric->report();
  int failures = 0;
  for (int i = 0; i < results.size(); i++) failures += results.GetTestPartResult(i).failed();
  return failures;
}

TEST(CardMisuse, IsNoticed) {
  struct {
    const char* name;
    Tamper tamper;
    const char* noticed_by;
    const char* without;  // of the report
  } const kTampers[] = {
      {"a foreign id", goes_to_a_foreign_id, "the_first_packet_names_its_sender",
       " 0 to invalid destinations"},
      {"no credits", forgets_credits, "upcalls_may_send", " 0 to invalid destinations"},
      {"a wrong slot", names_a_wrong_slot, "the_first_packet_names_its_sender",
       " 0 to unmapped pages"},
      {"an early trailer", completes_before_the_data, "every_size", nullptr},
  };
  for (const auto& t : kTampers) {
    std::string report;
    EXPECT_GT(find_tampering(t.tamper, t.noticed_by, &report), 0)
        << t.name << " is not noticed by " << t.noticed_by;
    size_t silent = 0;
    for (size_t at = 0; t.without && (at = report.find(t.without, at)) != report.npos; at++)
      silent++;
    EXPECT_LT(silent, 4u) << t.name << ": no card has counted it\n" << report;
    EXPECT_EQ(find_tampering(is_honest, t.noticed_by, &report), 0) << t.noticed_by;
  }
}

}  // namespace
}  // namespace torii::kit
