"""Answers that share no content word with their question, beside rows that share many and do not answer."""

from __future__ import annotations

from tests.bench.retrieval.probes.assembling import Ask, Draw, Part

# What is told; how it is asked; a row with the question's words.
PAIRS = (
    (
        "I had my wisdom teeth pulled and ate nothing but yoghurt for a week.",
        "Which oral surgery did I undergo?",
        "Surgery hours changed, oral exams too, said the radio.",
    ),
    (
        "We tied the knot on a barge with only six witnesses.",
        "How was our wedding celebrated?",
        "The wedding cake we celebrated with at the office was dry.",
    ),
    (
        "My sister is expecting twins around Easter.",
        "Who in the family is pregnant?",
        "The pregnant pause at the family table was long.",
    ),
    (
        "They let me go at the foundry because orders dried up.",
        "Why did I lose my job?",
        "Do not lose the job advert I cut out.",
    ),
    (
        "I am scared stiff of lifts, so I always climb.",
        "What phobia do I have?",
        "Phobia is the title of the film you have recommended.",
    ),
    (
        "The cobbler resoled my brown brogues for thirty.",
        "How much was the shoe repair?",
        "Shoe shops repair nothing any more.",
    ),
    (
        "Our spaniel passed away in his basket, fourteen years old.",
        "When did the dog die?",
        "A dog would die for one of these sausages.",
    ),
    (
        "I cannot digest milk, cream or anything of the kind.",
        "Which food intolerance do I have?",
        "Intolerance is a growing problem, not only in food courts.",
    ),
    (
        "The bank turned us down, so no house this year.",
        "Was the mortgage approved?",
        "The mortgage film was approved for children, oddly.",
    ),
    (
        "I stopped lighting up after the first grandchild came.",
        "When did I quit smoking?",
        "Smoking salmon is an art, do not quit early.",
    ),
    (
        "She translates medical leaflets from Dutch, freelance.",
        "What does the language professional earn a living with?",
        "Living languages change, as any professional knows.",
    ),
    (
        "My bicycle got nicked in front of the library.",
        "Which item of mine was stolen?",
        "The stolen item on the agenda was mine.",
    ),
    (
        "We shall spend August in a cabin by the fjord.",
        "What is the destination of the summer holiday?",
        "Summer holiday brochures name no destination under a thousand.",
    ),
    (
        "Grandpa can no longer hear the doorbell.",
        "Who has gone deaf?",
        "Deaf to all reason, the council has gone ahead.",
    ),
    (
        "I read under the blanket with a torch until midnight.",
        "How do I spend late evenings?",
        "Evenings are late trains and spend-thrift taxis.",
    ),
    ("Two of the hens were taken by a fox.", "What happened to the poultry?", "Poultry prices happened to be low."),
    (
        "My eldest failed algebra and has to sit it again.",
        "How did the child do in the maths exam?",
        "Maths exam papers were lost by a child, they say.",
    ),
    (
        "The roof lets water in above the bath.",
        "Which damage does the building have?",
        "Damage done by building sites is never paid for.",
    ),
    (
        "He proposed to her on the Ferris wheel.",
        "Where did the engagement take place?",
        "The engagement of the new director took place quietly.",
    ),
    (
        "I can play two Chopin waltzes by heart.",
        "What piano repertoire have I memorised?",
        "The piano shop memorised its repertoire of excuses.",
    ),
    (
        "Our landlady put sixty on top of what we pay.",
        "By how much did the rent increase?",
        "An increase in rent cars was noted.",
    ),
    (
        "I sleep badly whenever the moon is bright.",
        "What triggers my insomnia?",
        "Insomnia is the name of a bar, it triggers nothing in me.",
    ),
    (
        "My passport is good until the spring after next.",
        "When does the travel document expire?",
        "Travel snacks expire faster than any document.",
    ),
    (
        "Lars has swapped his petrol car for one with a plug.",
        "Who drives an electric vehicle?",
        "Electric drives are in every vehicle brochure.",
    ),
    (
        "We had to boil everything because of a burst main.",
        "Why was tap water unsafe?",
        "Unsafe taps in water parks were on the news.",
    ),
    ("I owe the tax office four thousand.", "What debts are outstanding?", "Outstanding work, no debts to the past."),
    (
        "She broke her ankle on the ice rink.",
        "Which injury did the skater suffer?",
        "Injury time was played, we had to suffer it.",
    ),
    (
        "The kids are being taught at our kitchen table.",
        "Do they attend school or learn at home?",
        "School prizes: attend, learn, go home.",
    ),
    (
        "I would rather have tea, coffee makes my hands shake.",
        "Which hot drink is the favourite?",
        "The favourite won, a hot race, and a drink on me.",
    ),
    (
        "Mum was born under the ash cloud of a volcano.",
        "What natural event marked the mother's birth?",
        "Natural yoghurt marked down, main event of the day.",
    ),
    ("My flight was called off for fog.", "Why did the plane not take off?", "Plane the edge and take a little off."),
    (
        "He cycles thirty miles before breakfast.",
        "How does the man keep fit?",
        "Keep it if the shirt does fit the man.",
    ),
    (
        "Our nephew will wear a robe and swear to defend clients.",
        "Who becomes a lawyer?",
        "The lawyer film becomes dull after an hour.",
    ),
    (
        "I sold the vineyard to pay for her studies.",
        "How was university financed?",
        "University towers, financed by sugar, stand empty.",
    ),
    (
        "The parcel came with the cups in pieces.",
        "In what condition did the delivery arrive?",
        "Delivery vans arrive in a sad condition.",
    ),
    (
        "My glasses are too weak now.",
        "Do I need a new prescription for my eyes?",
        "Need to fetch the prescription for the cat's eyes... no, ears.",
    ),
    (
        "We only heat the kitchen and wear two jumpers.",
        "How do we save energy in winter?",
        "Save the date: winter energy fair.",
    ),
    ("I give blood every eighth week.", "What do I donate regularly?", "Donate buttons regularly ask for too much."),
    (
        "Her stammer disappears as soon as she sings.",
        "What cures the speech disorder?",
        "Speech after speech and disorder in the hall, who cures that?",
    ),
    (
        "The judge gave him eighteen months.",
        "How long is the prison sentence?",
        "The longest prison sentence in the film has no comma.",
    ),
    ("I moved my savings into gold coins.", "Which investment was made?", "The investment film was made in a shed."),
    (
        "They speak Welsh to the baby and Urdu to each other.",
        "In which tongues is the infant raised?",
        "Infant shoes with tongues, raised heels.",
    ),
    (
        "The vicar found mould behind the organ.",
        "Which problem has the church?",
        "The church clock is right, no problem.",
    ),
    (
        "My knees forbid me to run, so I swim.",
        "Which sport replaced jogging?",
        "Jogging shoes were replaced by the sport shop.",
    ),
    (
        "I hid the gifts in the tumble dryer.",
        "Where are the presents concealed?",
        "Presents of mind, hardly concealed yawns.",
    ),
)

ASKED = 9


def compose(draw: Draw, share: int) -> Part:
    """Each pair is asked in one vault, the `share`-th nine in this one; some of the other rows are told here too."""
    part = Part()
    for place, (told, asked, beside) in enumerate(PAIRS):
        mine = place // ASKED == share
        if mine or draw.chance(0.3):
            part.tell("life", told, f"paraphrase {place}")
        if mine:
            part.tell("life", beside)
            part.asks.append(Ask(asked, f"paraphrase {place}", "paraphrase"))
    return part
