import type { NewArticle } from './reader-store.ts';

const hourMs = 3_600_000;

interface Sample {
  readonly url: string;
  readonly title: string;
  readonly hoursAgo: number;
  readonly text: string;
}

const samples: readonly Sample[] = [
  {
    url: 'https://workbench.example/queues',
    title: 'Why a full queue should say no',
    hoursAgo: 2,
    text: `A server that accepts every request works well until the day it does not. Each request
that waits holds memory, and the longer the queue grows, the older the work at its head becomes.
Users press reload, which adds more work that nobody will read. A bounded queue with a deadline
answers at once that it is busy, and clients can try again elsewhere. The engineers who measured
this found that refusing one request in ten kept the other nine under fifty milliseconds, while
accepting all of them made every single one time out.`,
  },
  {
    url: 'https://stagedoor.example/premiere',
    title: 'Red carpet surprise: the singer and the film star arrive together',
    hoursAgo: 1,
    text: `Fans screamed when the two stepped out of the same car at the premiere last night. They
held hands for the cameras and then refused to answer a single question. Friends say that they have
been seeing each other since the summer party on the yacht. Her dress, with a train of four metres,
was designed in Paris for this evening alone. His former wife posted one broken heart, and deleted
it an hour later. Everybody now wonders who will be invited to the wedding.`,
  },
  {
    url: 'https://fieldnotes.example/swifts',
    title: 'Swifts sleep on the wing, tiny recorders show',
    hoursAgo: 5,
    text: `For ten months of the year some swifts never touch the ground. Biologists fitted birds
with recorders that weigh less than a gram and found that they rest in short glides during the
night, mostly after climbing to two thousand metres at dusk. Heart rate and wing beats fall
together for a few seconds at a time. How half a brain can steer while the other half sleeps is
still an open question, but the measurements rule out that the birds simply stay awake.`,
  },
  {
    url: 'https://workbench.example/index',
    title: 'One index made the nightly report four hundred times faster',
    hoursAgo: 9,
    text: `The report had grown slowly for two years until it ran into the morning. The query plan
showed why: the database read a table of ninety million rows to find eleven thousand of them. A
compound index on the customer and the day turned the scan into a search. It cost three gigabytes
of disk and made writes two percent slower, which nobody noticed. The team now stores the plan of
every important query beside its code, and a test fails when a plan changes.`,
  },
  {
    url: 'https://stagedoor.example/feud',
    title: 'The television chefs who do not speak to each other any more',
    hoursAgo: 7,
    text: `It began with a remark about a sauce, say people who were in the studio. Now the two
most popular chefs of the country use different doors and different lifts. One of them has removed
every photograph of the other from her page. The channel denies that the show will end, but a
rival has already been seen having lunch with the producer. Viewers have taken sides, and the
comments under last week's episode had to be closed.`,
  },
  {
    url: 'https://fieldnotes.example/reef',
    title: 'A reef that was given up is growing again',
    hoursAgo: 30,
    text: `Divers who mapped the reef after the hot summer found nine of ten corals dead. Five
years later the same team returned with the same cameras. Young corals now cover a third of the
rock, most of them from larvae that a current carried forty kilometres. Fish that graze algae had
been protected in the bay, and the scientists think that this is what made the difference: where
fishing went on, the rock is green and bare.`,
  },
  {
    url: 'https://kitchen.example/bread',
    title: 'Bread with three ingredients and a lot of time',
    hoursAgo: 12,
    text: `Flour, water and salt are enough if you can wait. Mix them in the evening with a spoon
of dough from the last loaf, cover the bowl and leave it on the table. In the morning fold it four
times, an hour apart, and put it into a hot iron pot. The crust cracks when it cools, and the
crumb tastes faintly sour. The hardest part is not to cut it while it is warm.`,
  },
  {
    url: 'https://townhall.example/bridge',
    title: 'Council votes to close the old bridge to cars',
    hoursAgo: 4,
    text: `After a debate of six hours the council decided by two votes that the old bridge will
belong to people on foot and on bicycles from May. Shop owners on the left bank fear for their
customers, while residents hope for quieter nights. Buses will take the new bridge upstream, which
adds four minutes to the journey. An engineer had reported cracks in two of the arches, and the
repair would have cost more than the town spends on all its schools.`,
  },
  {
    url: 'https://gazette.example/old-bridge',
    title: 'Council votes: old bridge to be closed to cars',
    hoursAgo: 3,
    text: `The council decided by two votes that the old bridge will belong to people on foot and
on bicycles from May. Shop owners on the left bank fear for their customers, while residents hope
for quieter nights. Buses will take the new bridge upstream. An engineer had reported cracks in two
of the arches, and the repair would have cost more than the town spends on all its schools.`,
  },
  {
    url: 'https://workbench.example/threads',
    title: 'What a worker thread costs, measured',
    hoursAgo: 20,
    text: `Starting a thread takes about forty milliseconds and ten megabytes before it has done
anything. Sending it a message of a kilobyte takes twenty microseconds there and back. So work of a
millisecond is worth sending, and work of ten microseconds is not. Buffers that are transferred
instead of copied cost the same whatever their size. We ran every measurement with one, two and
eight threads, and publish the program, so that you can repeat it on your own machine.`,
  },
];

/** Articles to begin with, as if they had just been found: rate three and see the order change. */
export function sampleArticles(nowMs: number): readonly NewArticle[] {
  return samples.map(({ url, title, hoursAgo, text }) => {
    return { url, title, text: text.replaceAll('\n', ' '), publishedAt: nowMs - hoursAgo * hourMs };
  });
}
