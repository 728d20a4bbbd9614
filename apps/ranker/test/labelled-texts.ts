/** A reader's taste as test data: topics from the most to the least liked, ten articles each. */
export interface LabelledTopic {
  readonly topic: string;
  readonly score: number;
  /** A title, then a text, for each article. */
  readonly articles: readonly (readonly [title: string, text: string])[];
}

export const labelledTopics: readonly LabelledTopic[] = [
  {
    topic: 'programming',
    score: 10,
    articles: [
      [
        'A faster parser',
        'The new compiler reads source files in parallel and keeps the syntax tree between builds. Large projects now start in half the time, and memory use fell as well.',
      ],
      [
        'Types at run time',
        'Developers of the language have agreed on a way to strip annotations before the code runs. No build step is needed while you write, and stack traces point at the right line.',
      ],
      [
        'Why our queue filled up',
        'A service that accepted every request fell over when the database slowed down. The team added a bounded queue, refused early, and the outage did not come back.',
      ],
      [
        'Garbage collection without pauses',
        'The runtime moves objects while the program goes on. Engineers measured pauses below one millisecond on a server with a heap of eighty gigabytes.',
      ],
      [
        'A debugger that goes backwards',
        'By recording every system call, the tool lets you step back from a crash to the instruction that wrote the wrong value. It works on compiled programs without changes.',
      ],
      [
        'Locks considered carefully',
        'Two threads that take the same mutexes in different orders will wait for each other forever. A static checker now finds such cycles in the source code before they reach production.',
      ],
      [
        'Small functions, fewer bugs',
        'A study of open source repositories looked at functions and the defects reported against them. Length alone predicted most of the bugs, in every programming language examined.',
      ],
      [
        'Version control for large files',
        'Storing binaries in a repository makes every clone slow. The proposal keeps only pointers in the history and fetches the content when a developer checks it out.',
      ],
      [
        'Testing with a virtual clock',
        'Unit tests that sleep are slow and fail at random. When the code takes time from an interface, the test can advance a simulated clock and finish a day in seconds.',
      ],
      [
        'An editor written in Rust',
        'The text editor draws its window on the graphics card and talks to language servers for completion. Its authors say that typing latency is lower than in any rival.',
      ],
    ],
  },
  {
    topic: 'space',
    score: 8.5,
    articles: [
      [
        'A probe reaches the ice moon',
        'After a flight of eight years the spacecraft entered orbit around the moon of Jupiter. Its radar will look for an ocean beneath the frozen crust.',
      ],
      [
        'Water in an exoplanet sky',
        'Astronomers using the space telescope found the signature of water vapour in the atmosphere of a distant planet. The world circles its star every eleven days.',
      ],
      [
        'The rocket that lands again',
        'The booster separated, turned around and set down on its platform at sea. It has now flown twenty times, which lowers the price of reaching orbit.',
      ],
      [
        'Dust from an asteroid',
        'The capsule brought back a few grams of rock that are older than the Earth. Under the microscope the grains show organic molecules and tiny crystals of salt.',
      ],
      [
        'A black hole wakes up',
        'For decades the galaxy was quiet. Then its centre grew brighter as the black hole began to swallow a cloud of gas, and observatories around the world turned towards it.',
      ],
      [
        'Mapping the Milky Way',
        'The satellite measured the positions and speeds of almost two billion stars. Astronomers can now see how the galaxy swallowed a smaller neighbour long ago.',
      ],
      [
        'Astronauts plant lettuce',
        'On the space station the crew grew leaves under red and blue lamps. Plants will have to feed travellers on the long voyage to Mars.',
      ],
      [
        'A lander on the far side',
        'The lunar module touched down in a crater that never faces the Earth. A relay satellite carries its pictures of the grey plain back home.',
      ],
      [
        'Gravitational waves, louder',
        'Detectors felt the collision of two neutron stars, and telescopes saw its glow a few hours later. Such mergers forge the gold of the universe.',
      ],
      [
        'The comet returns',
        'A comet last seen by medieval monks is bright enough for binoculars again. It will pass the Sun in spring and then leave for eight centuries.',
      ],
    ],
  },
  {
    topic: 'mountains',
    score: 6.5,
    articles: [
      [
        'Three passes in two days',
        'The hiking trail climbs from the valley through larch woods to a hut beneath the glacier. Walkers should start before dawn, because thunderstorms come in the afternoon.',
      ],
      [
        'A new bolted route',
        'Climbers opened twelve pitches on the south face. The crux is a smooth slab of limestone where the only holds are the width of a fingertip.',
      ],
      [
        'Choosing a tent',
        'A light tent is pleasant on the way up and miserable in a storm. We camped with five of them above the tree line and measured which stayed dry.',
      ],
      [
        'Avalanche season',
        'Guides warn that the snow on north slopes is badly bonded. Ski tourers should carry a beacon, a shovel and a probe, and turn back in time.',
      ],
      [
        'Cycling over the high road',
        'The gravel road rises for thirty kilometres without a flat metre. Riders carry food and a jacket, since there is no village before the far side.',
      ],
      [
        'The hut keeper retires',
        'For forty summers she cooked soup for hikers at the foot of the peak. Now a young couple takes over the refuge and its two mules.',
      ],
      [
        'Boots that last',
        'A cobbler in the Alps resoles climbing boots by hand. Good leather, he says, will outlive three pairs of soles if it is greased after every tour.',
      ],
      [
        'Paddling the gorge',
        'In early summer the melting snow fills the river and kayakers come for the rapids. The middle section can only be scouted from the cliff.',
      ],
      [
        'Night on the ridge',
        'Fog caught the party below the summit and they bivouacked between the rocks. In the morning they found the path a few steps away.',
      ],
      [
        'Trail crews at work',
        'Volunteers carry stones and timber to repair footpaths that spring floods have washed out. Each kilometre of mountain path takes them a week.',
      ],
    ],
  },
  {
    topic: 'cooking',
    score: 5,
    articles: [
      [
        'Bread with three ingredients',
        'Flour, water and salt are all it takes once the sourdough starter is awake. Fold the dough every half hour and bake it in a hot iron pot.',
      ],
      [
        'A stew for winter',
        'Brown the beef in small batches, then add onions, carrots and a bottle of red wine. After three hours in the oven the meat falls apart.',
      ],
      [
        'Better tomato sauce',
        'Cook the tomatoes slowly with butter and half an onion. No garlic, no herbs: the sauce tastes of summer and coats the pasta.',
      ],
      [
        'Knives worth sharpening',
        'A dull knife crushes the herbs and slips on the onion. Ten minutes on a wet stone each month keep the edge keen.',
      ],
      [
        'Pickles overnight',
        'Slice cucumbers, pour over hot vinegar with sugar and mustard seed, and leave the jar in the fridge. They are crisp the next day.',
      ],
      [
        'The perfect omelette',
        'Beat three eggs with a fork, stir them in foaming butter and stop while the middle is still soft. Roll it onto a warm plate.',
      ],
      [
        'Spices of the market',
        'Cumin, coriander and dried lime fill the stalls of the old bazaar. Toast them whole before grinding, the traders advise, and buy little at a time.',
      ],
      [
        'Cake without a mixer',
        'Stir oil, yoghurt, eggs and flour in one bowl with a wooden spoon. The lemon cake stays moist for days and forgives every mistake.',
      ],
      [
        'Rice, step by step',
        'Rinse the grains until the water is clear, soak them, and steam with the lid on. Fluff the rice with a fork after ten minutes of rest.',
      ],
      [
        'Fish on the grill',
        'Oil the skin rather than the grate, and turn the mackerel only once. Serve it with a salad of fennel and oranges.',
      ],
    ],
  },
  {
    topic: 'finance',
    score: 3,
    articles: [
      [
        'Central bank holds rates',
        'Policymakers left the interest rate unchanged and said that inflation was falling more slowly than hoped. Bond yields rose after the announcement.',
      ],
      [
        'Shares slip at the close',
        'The stock index lost one percent as investors sold banks and bought gold. Traders blamed weak figures from factories and a strong currency.',
      ],
      [
        'Merger of two insurers',
        'The insurance groups will combine in a deal worth nine billion. Shareholders receive cash and stock, and regulators have until autumn to object.',
      ],
      [
        'Quarterly profit warning',
        'The retailer cut its forecast because customers spend less. Its shares fell by a fifth, and analysts lowered their price targets.',
      ],
      [
        'Pension funds turn to bonds',
        'With yields at their highest in a decade, pension managers are moving money out of equities. The shift could continue for years.',
      ],
      [
        'A tax on dividends',
        'The finance ministry proposes a higher levy on dividends to close the budget gap. Business groups say that investment would suffer.',
      ],
      [
        'Mortgage lending cools',
        'Banks approved fewer home loans in March than in any month since the crisis. Higher interest keeps first-time buyers out of the market.',
      ],
      [
        'The dollar strengthens',
        'Currency traders bought dollars after the employment report. Exporters in emerging markets face higher costs for their debt.',
      ],
      [
        'Private equity waits',
        'Funds sit on record amounts of unspent capital. With credit expensive, buyouts have become rare and asset managers cut their fees.',
      ],
      [
        'Oil price and the budget',
        'The treasury expects lower revenue as crude gets cheaper. Economists advise the government to delay new spending until the market recovers.',
      ],
    ],
  },
  {
    topic: 'gossip',
    score: 1,
    articles: [
      [
        'Star splits from singer',
        'The actress and her pop star boyfriend have broken up after six months, friends told a magazine. She was seen without the ring at a party in Malibu.',
      ],
      [
        'Who wore it best',
        'Two celebrities came to the gala in the same glittering dress. Fans on social media voted for the reality star and her famous hairdo.',
      ],
      [
        'Baby joy for the prince',
        'The royal couple expect their third child, an insider reveals. The duchess hid her bump under a wide coat while greeting admirers.',
      ],
      [
        'Reality star in tears',
        'She stormed out of the villa after her rival kissed the favourite. Viewers of the dating show were shocked by the dramatic scene.',
      ],
      [
        'A secret wedding',
        'The rapper married his girlfriend on a yacht, and only the closest celebrity friends were invited. Paparazzi got pictures of the cake.',
      ],
      [
        'Feud at the awards',
        'The two divas would not look at each other on the red carpet. An old quarrel about a stolen boyfriend is said to be the reason.',
      ],
      [
        'Plastic surgery rumours',
        'Fans wonder about the new face of the television presenter. She laughs at the gossip and credits sleep and good make-up.',
      ],
      [
        'Mansion for sale',
        'The divorced film star is selling the love nest with its twelve bathrooms. Neighbours remember wild parties and a famous guest in the pool.',
      ],
      [
        'Diet secrets of a model',
        'The supermodel told her followers what she eats before a fashion show. Her ex posted a nasty comment and deleted it an hour later.',
      ],
      [
        'Caught on holiday',
        'Photographers spotted the footballer with a mystery blonde on the beach. His wife, an influencer, has removed all pictures of him.',
      ],
    ],
  },
];
