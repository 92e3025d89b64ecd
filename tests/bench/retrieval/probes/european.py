"""German, French, Spanish, Polish and Russian. Some questions leave the diacritics out, as people type."""

from __future__ import annotations

from collections.abc import Mapping

from tests.bench.retrieval.probes.tongue import Tongue

GERMAN = Tongue(
    facts=(
        ("Der Ersatzschlüssel liegt unter dem dritten Blumentopf neben der Tür.", "Wo liegt der Ersatzschlüssel?"),
        ("Opa hat sein Hörgerät im Kühlschrank vergessen, hinter der Butter.", "Wo war das Hoergeraet von Opa?"),
        (
            "Das Fahrrad von Jürgen ist seit Dienstag beim Händler, die Gangschaltung klemmt.",
            "Was ist an Jurgens Rad kaputt?",
        ),
        (
            "Meine Tochter fängt im September als Bäckerin in Lübeck an.",
            "In welcher Stadt beginnt die Tochter ihre Lehre?",
        ),
        (
            "Wir treffen uns um halb neun vor der Sporthalle, nicht am Bahnhof.",
            "Wann ist der Treffpunkt vor der Halle?",
        ),
        (
            "Für die Grüne Soße braucht man sieben Kräuter und saure Sahne.",
            "Wie viele Kräuter gehören in die grüne Sosse?",
        ),
        ("Der Zahnarzt hat mir eine Schiene für die Nacht verschrieben.", "Was hat der Zahnarzt verschrieben?"),
        (
            "Die Miete steigt ab Januar um achtzig Euro, schreibt der Hausverwalter.",
            "Um wie viel wird die Wohnung teurer?",
        ),
    ),
    frames=(
        "{a} hat {b} gesehen, {c}.",
        "{a} sucht schon wieder {b}, {c}.",
        "Wegen {b} hat {a} angerufen, {c}.",
        "Ohne {b} geht {a} nicht aus dem Haus, {c}.",
        "{a} schreibt, {b} sei teuer, {c}.",
    ),
    names=(
        "Opa",
        "Jürgen",
        "die Tochter",
        "der Zahnarzt",
        "der Hausverwalter",
        "meine Nachbarin",
        "Lübecks Bürgermeister",
    ),
    things=(
        "das Fahrrad",
        "den Schlüssel",
        "das Hörgerät",
        "die Wohnung",
        "den Blumentopf",
        "die Grüne Soße",
        "die Schiene",
        "die Miete",
        "die Sporthalle",
    ),
    ends=(
        "am Dienstag",
        "um halb neun",
        "am Bahnhof",
        "neben der Tür",
        "seit September",
        "wie jedes Jahr",
        "in der Nacht",
    ),
)

FRENCH = Tongue(
    facts=(
        ("La clé de secours est chez la boulangère, dans une boîte à thé.", "Chez qui est la cle de secours ?"),
        ("Mon frère élève des chèvres près de Millau depuis deux hivers.", "Quels animaux élève mon frère ?"),
        ("Le chauffage fait un bruit de casserole dès qu'il gèle.", "Quand le chauffage fait-il du bruit ?"),
        (
            "Nous avons réservé la table ronde pour neuf personnes, samedi soir.",
            "Pour combien de convives a-t-on reserve ?",
        ),
        ("Élodie déteste les huîtres mais adore les bigorneaux.", "Qu'est-ce qu'Elodie n'aime pas manger ?"),
        ("Le garagiste a changé la courroie et oublié la facture.", "Qu'a oublié le garagiste ?"),
        ("Ma grand-mère cachait ses lettres dans l'horloge du salon.", "Où la grand-mère gardait-elle ses lettres ?"),
        ("Le train de Rennes part désormais à six heures douze.", "A quelle heure part le train de Rennes ?"),
    ),
    frames=(
        "{a} a parlé de {b} {c}.",
        "{a} cherche {b} {c}.",
        "{c}, {a} voulait voir {b}.",
        "Sans {b}, {a} ne sort plus, {c}.",
        "{a} a oublié {b} {c}.",
    ),
    names=("Élodie", "mon frère", "le garagiste", "la boulangère", "ma grand-mère", "le voisin", "la directrice"),
    things=(
        "la clé",
        "les chèvres",
        "le chauffage",
        "la table ronde",
        "l'horloge",
        "la courroie",
        "les huîtres",
        "le train",
    ),
    ends=(
        "samedi soir",
        "près de Millau",
        "à six heures",
        "dans le salon",
        "depuis deux hivers",
        "comme toujours",
        "à Rennes",
    ),
)

SPANISH = Tongue(
    facts=(
        ("La contraseña del portón es el cumpleaños de la abuela al revés.", "¿Cuál es la contrasena del porton?"),
        ("Begoña vendió el piano y se compró una máquina de coser.", "¿Qué compró Begona después de vender el piano?"),
        ("El médico dijo que camine una hora diaria por la rodilla.", "¿Qué recomendó el medico para la rodilla?"),
        ("Mañana no hay clase de natación porque vacían la piscina.", "¿Por qué se cancela la natación?"),
        ("Mi primo pinta barcos en el puerto de Almuñécar.", "¿En qué puerto trabaja mi primo?"),
        ("Las gafas estaban dentro del horno, no me preguntes.", "¿Dónde aparecieron las gafas?"),
        ("El gato del vecino se llama Ñoqui y duerme en nuestro tejado.", "¿Cómo se llama el gato del vecino?"),
        ("Pagamos setecientos euros por arreglar la caldera.", "¿Cuánto costó reparar la caldera?"),
    ),
    frames=(
        "{a} preguntó por {b} {c}.",
        "{a} no encuentra {b} {c}.",
        "{c} {a} habló de {b}.",
        "{a} quiere vender {b} {c}.",
        "Por culpa de {b}, {a} llegó tarde {c}.",
    ),
    names=("Begoña", "mi primo", "el médico", "la abuela", "el vecino", "la profesora", "el portero"),
    things=(
        "el piano",
        "el portón",
        "la piscina",
        "las gafas",
        "el gato",
        "la caldera",
        "la rodilla",
        "los barcos",
        "el horno",
    ),
    ends=("mañana", "en el puerto", "una hora diaria", "en el tejado", "en Almuñécar", "como siempre", "el domingo"),
)

POLISH = Tongue(
    facts=(
        ("Zapasowy klucz leży w skrzynce na narzędzia, pod młotkiem.", "Gdzie jest zapasowy klucz?"),
        ("Łukasz złamał rękę, kiedy zbierał czereśnie.", "Co zlamal Lukasz?"),
        ("Babcia piecze makowiec tylko w pierwszą sobotę grudnia.", "Kiedy babcia robi makowiec?"),
        ("Pociąg do Gdyni odjeżdża z peronu czwartego.", "Z którego peronu jedzie pociag do Gdyni?"),
        ("Żółw sąsiadki uciekł i znalazł się w piwnicy.", "Gdzie znaleziono zolwia?"),
        ("Lekarz kazał mi pić napar z szałwii trzy razy dziennie.", "Ile razy dziennie mam pić szalwie?"),
        ("Siostra przeprowadza się do Łodzi, bo dostała etat w teatrze.", "Dlaczego siostra jedzie do Lodzi?"),
        ("Za naprawę pralki zapłaciliśmy trzysta złotych.", "Ile kosztowała naprawa pralki?"),
    ),
    frames=(
        "{a} pyta, gdzie jest {b}, {c}.",
        "{a} mówi, że {b} to kłopot, {c}.",
        "{c} {a} widzi: {b}.",
        "{b}? {a} nic nie wie, {c}.",
        "{a} i {b}, {c}, jak zwykle.",
    ),
    names=("Łukasz", "babcia", "lekarz", "siostra", "sąsiadka", "dozorca", "pani z teatru"),
    things=("klucz", "makowiec", "pociąg", "żółw", "pralka", "młotek", "peron", "piwnica", "napar"),
    ends=("w sobotę", "w Gdyni", "trzy razy dziennie", "w piwnicy", "w grudniu", "bez powodu", "w Łodzi"),
)

RUSSIAN = Tongue(
    facts=(
        ("Запасной ключ висит за счётчиком, на синем гвозде.", "Где висит запасной ключ?"),
        ("Алёна учится играть на виолончели у соседа с пятого этажа.", "На чём учится играть Алена?"),
        ("Ёжик снова пришёл на дачу и съел кошачий корм.", "Кто съел корм у кошки?"),
        ("Поезд в Псков теперь отправляется в шесть сорок утра.", "Во сколько отправление поезда в Псков?"),
        ("Врач запретил дедушке солёные огурцы.", "Что врач запретил дедушке?"),
        ("Мы оставили лодку у рыбака за старым мостом.", "У кого осталась наша лодка?"),
        ("Брат продал мотоцикл, чтобы купить теплицу.", "Зачем брат продал мотоцикл?"),
        ("Пароль от архива состоит из названия реки и года свадьбы.", "Из чего состоит пароль архива?"),
    ),
    frames=(
        "{a} спрашивает, где {b}, {c}.",
        "{a} говорит, что {b} не нужен никому, {c}.",
        "{c} {a} видит: {b}.",
        "{b}? {a} молчит, {c}.",
        "{a} и {b}, {c}, как обычно.",
    ),
    names=("Алёна", "брат", "врач", "дедушка", "сосед", "рыбак", "кошка"),
    things=("ключ", "поезд", "ёжик", "лодка", "мотоцикл", "пароль", "корм", "мост", "счётчик"),
    ends=("в шесть утра", "на даче", "за мостом", "на пятом этаже", "в Пскове", "после свадьбы", "без причины"),
)

EUROPEAN: Mapping[str, Tongue] = {
    "German": GERMAN,
    "French": FRENCH,
    "Spanish": SPANISH,
    "Polish": POLISH,
    "Russian": RUSSIAN,
}
