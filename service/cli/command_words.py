"""What may stand after each command, and its help; `make generate` writes it.

Help and completion read this and load no command. Arguments stand by what they name, in capitals;
an option takes a value where ``=`` follows it.
"""

from typing import Final

WORDS: Final = {
    "try": (
        "--use= --kind= --relation= --directed= --undirected= --window= NEW... --label= --name= "
        "--dry-run --dir= --json"
    ),
    "demo": "--dir= --serve --host= --port= --json",
    "serve": "--host= --port= --workers=",
    "graph create": (
        "NEW --epsilon= --max-edges= --keep-raw --no-keep-raw --parallel= --window= "
        "--relation-windows= --allowed-ahead= --snapshot-edges= --snapshot-seconds= "
        "--auto-solve=MODEL --set= --column= --answers= --directed= --node-ids= --expected-nodes= "
        "--max-nodes= --seed= --deletions= --window-by= --buckets= --time-unit= --json"
    ),
    "graph set": (
        "GRAPH --epsilon= --max-edges= --keep-raw --no-keep-raw --parallel= --window= "
        "--relation-windows= --allowed-ahead= --snapshot-edges= --snapshot-seconds= "
        "--auto-solve=MODEL --set= --column= --answers= --directed= --rename= --clock-right --json"
    ),
    "graph list": "--json",
    "graph show": "GRAPH --json",
    "graph relations": "GRAPH --json",
    "graph delete": "GRAPH --yes --json",
    "graph export": "GRAPH -o= --output= --snapshot= --json",
    "graph filter-features": "GRAPH -o= --output= --teleport= --json",
    "graph knn": (
        "GRAPH --k= --weights=self-tuned,heat,binary --symmetrize=mean,max "
        "--metric=euclidean,cosine --width= --method=auto,exact,approximate --n-probes= --json"
    ),
    "ingest": (
        "GRAPH FILE... --dask= --follow --src= --dst= --weight= --op= --time= --relation= "
        "--relation-column= --src-kind-column= --dst-kind-column= --entity= --via= "
        "--time-unit=s,ms,us,ns --time-format= --quote=double,none --missing-ids=refuse,keep "
        "--directed --skip-bad-rows= --replace --no-replace --again --once --dry-run --threads= "
        "--memory-limit= --metrics-port= --scheduler= --json"
    ),
    "labels put": (
        "GRAPH FILE --unknown=refuse,keep --node= --label= --no-label= --keep-word= "
        "--missing-ids=refuse,leave-out --contradictions=refuse,last,leave-out,opinions "
        "--quote=double,none --label-column= --origin=given,random,suggested,imported --annotator= "
        "--time-column= --origin-column= --annotator-column= --as-opinions --json"
    ),
    "labels columns": "GRAPH --json",
    "labels list": "GRAPH --label= --annotator= --label-column= -n= --json",
    "labels doubtful": "GRAPH -k= --model=MODEL --job=JOB --label-column= --json",
    "labels remove": "GRAPH NEW... --label-column= --json",
    "labels export": "GRAPH FILE -o= --output= --label-column= --json",
    "labels agreement": "GRAPH --drawn=random,all --share= --confidence= --label-column= --json",
    "labels disagreements": "GRAPH -k= --label-column= --json",
    "labels decide": "GRAPH NODE NEW --annotator= --label-column= --json",
    "labels rename-annotator": "GRAPH NEW NEW --json",
    "solve": "GRAPH --model=MODEL --set= --label-column= --priority= --details --json",
    "predictions": (
        "GRAPH -o= --output= --model=MODEL --job=JOB --label-column= --sort= --reverse --top= "
        "--unlabeled --unproven --positive= --threshold= --coverage= --safe-csv --json"
    ),
    "why": "GRAPH NODE -k= --model=MODEL --job=JOB --label-column= --json",
    "suggest": (
        "GRAPH --strategy=margin,variance,coverage,random -k= --reserve --annotator= --model=MODEL "
        "--job=JOB --label-column= --json"
    ),
    "jobs list": (
        "GRAPH --graph=GRAPH --status=queued,running,succeeded,failed,cancelled --kind= -n= "
        "--page= --json"
    ),
    "jobs show": "JOB --json",
    "jobs cancel": "JOB --json",
    "jobs wait": "JOB --json",
    "features": (
        "GRAPH FILE... --from-libsvm --zero-based --node= --text= --without= "
        "--missing-ids=refuse,leave-out --join --add --json"
    ),
    "source add": (
        "GRAPH FILE --kind= --holds=edges,labels,features --from= --follow --src= --dst= --weight= "
        "--op= --time= --relation= --relation-column= --src-kind-column= --dst-kind-column= "
        "--entity= --via= --time-unit=s,ms,us,ns --time-format= --quote=double,none "
        "--missing-ids=refuse,keep --directed --node= --label= --label-column= --skip-bad-rows= "
        "--replace --no-replace --again --once --json"
    ),
    "source list": "GRAPH --json",
    "source remove": "GRAPH SOURCE --json",
    "source retry": "GRAPH SOURCE --json",
    "labelstudio tasks": (
        "GRAPH -o= --output= --config= --strategy=margin,variance,coverage,random -k= --class= "
        "--label-column= --json"
    ),
    "labelstudio labels": "GRAPH FILE --class= --control= --label-column= --json",
    "delete": "GRAPH NEW... --edges= --src= --dst= --quote=double,none --relation= --json",
    "erase": "GRAPH --node= --nodes= --column= --wait --json",
    "retract": "GRAPH FILE... --inserts-only --json",
    "expire": "GRAPH --before= --json",
    "repair": "GRAPH --rebuild --json",
    "evaluate": (
        "GRAPH FILE --top-k= --positive= --threshold= --model=MODEL --job=JOB --label-column= "
        "--min-recall= --min-precision= --cost-fn= --cost-fp= --positive-share= --node= --label= "
        "--no-label= --keep-word= --missing-ids=refuse,leave-out "
        "--contradictions=refuse,last,leave-out,opinions --quote=double,none --json"
    ),
    "sets": "GRAPH --coverage= --model=MODEL --job=JOB --label-column= --json",
    "abstain": "GRAPH --max-error= --confidence= --model=MODEL --job=JOB --label-column= --json",
    "threshold": (
        "GRAPH --positive= --model=MODEL --job=JOB --label-column= --min-recall= --min-precision= "
        "--cost-fn= --cost-fp= --positive-share= --json"
    ),
    "certify": "GRAPH --snapshot= --passes= --set= --json",
    "predict": (
        "GRAPH FILE -o= --output= --job=JOB --label-column= --from-libsvm --zero-based --json"
    ),
    "estimate": "GRAPH --model=MODEL --set= --label-column= --json",
    "tune": "GRAPH --model=MODEL --grid= --folds= --set= --label-column= --json",
    "watch": "GRAPH --every= --json",
    "map": "GRAPH --json",
    "api": "--host= --port= --workers=",
    "worker": "--metrics-port=",
    "mcp": "--url=",
    "key create": "NEW --scope= --json",
    "key list": "--json",
    "key revoke": "NEW --json",
    "key open": "--json",
    "backup": "FILE --json",
    "restore": "FILE --erasures= --json",
    "doctor": "--repair --json",
    "version": "--json",
}

HELP: Final = {
    "try": "Say what your tables hold, and try them.",
    "demo": "Label 1,797 digits from 100 labels.",
    "serve": "Run the service and its page on this machine.",
    "graph create": "Create an empty graph.",
    "graph set": "Change settings of a graph; they hold from the next block on.",
    "graph list": "All graphs, by name.",
    "graph show": "Show one graph: settings, what came in, what was kept, what waits.",
    "graph relations": (
        "The relations (kinds of edges) of the newest snapshot, each with its spectral error."
    ),
    "graph delete": (
        "Delete a graph with its labels and predictions; its files go after a time of grace."
    ),
    "graph export": (
        "Write the sparsified edges of a snapshot: src, dst, weight, and relation if they have one."
    ),
    "graph filter-features": (
        "Write the features of all nodes, smoothed along the edges, for classifiers of your own."
    ),
    "graph knn": "Make edges between nodes whose features are near, and ingest them.",
    "ingest": "Bring edges into a graph.",
    "labels put": "Put labels; the latest of a node wins.",
    "labels columns": "The columns in which labels were given, with how many nodes have one.",
    "labels list": (
        "List labeled nodes, their labels, where these come from and who gave them, by their ids."
    ),
    "labels doubtful": (
        "Labels that the others contradict, the most doubtful first: mistakes are among them."
    ),
    "labels remove": "Take labels back; accepted counts the nodes that had one.",
    "labels export": "Write the present label of every labeled node, ready to be put again.",
    "labels agreement": (
        "How far people agree about the same nodes: percent, kappa of pairs, alpha of all."
    ),
    "labels disagreements": (
        "Nodes that people have labeled differently, and which label stands until somebody decides."
    ),
    "labels decide": "Put the label that is to stand of a node about which people disagree.",
    "labels rename-annotator": (
        "Give a person another name in the labels, history and opinions of a graph."
    ),
    "solve": "Predict every node's label from those that were put.",
    "predictions": "Write what was predicted last, or by one job.",
    "why": "Which labels speak for a prediction, and on which way.",
    "suggest": "Nodes whose label would help most.",
    "jobs list": "Jobs, newest first; a key that must not read sees its own.",
    "jobs show": "One job as it stands; a key that must not read sees its own.",
    "jobs cancel": (
        "Cancel a waiting job at once, ask a running one to stop, leave a finished one alone."
    ),
    "jobs wait": "Wait until a job has ended; exit with 1 unless it succeeded.",
    "features": "Give nodes features; nodes that the graph does not know are created.",
    "source add": (
        "Have the daemon read a source: files, or a live one: a Delta table, a topic of Kafka."
    ),
    "source list": (
        "List sources with their files by status, their errors, and the quarantined files."
    ),
    "source remove": "Read nothing more from a source; its committed files stay in the graph.",
    "source retry": (
        "Offer the quarantined files of a source again; try it at once if it could not be read."
    ),
    "labelstudio tasks": (
        "Write suggested nodes as tasks for Label Studio, with what is predicted of them."
    ),
    "labelstudio labels": "Put what annotators chose in Label Studio as labels of suggested nodes.",
    "delete": "Delete all edges between some pairs of nodes.",
    "erase": "Forget nodes: their edges, labels, features and predictions, and their ids.",
    "retract": "Take all edges of some files out of a graph again.",
    "expire": "Let go of all edges before a time, as a window does by itself once newer ones come.",
    "repair": (
        "Sample edges anew that deletes have spoiled, or all of them, before the next snapshot."
    ),
    "evaluate": (
        "Predictions judged by true labels, on the nodes that carry no label; nothing is stored."
    ),
    "sets": "What sets of labels of some coverage promise, to whom, and how large they are.",
    "abstain": (
        "How sure a prediction must be for few to be wrong: a score, and the curve of errors."
    ),
    "threshold": "A threshold on the score of a class, chosen on the labels that the job left out.",
    "certify": "Measure how far a snapshot is from the raw edges that it stands for.",
    "predict": (
        "Predict points that are no nodes of the graph, by a model that was solved on features."
    ),
    "estimate": "Say what a solve would take, and whether it fits; exit with 1 where it does not.",
    "tune": "Choose hyperparameters by cross-validation over the present labels.",
    "watch": "Watch a graph: ingest, backlog, refused files and jobs, until Ctrl-C.",
    "map": "Draw the nodes of the newest snapshot, for the page of the graph.",
    "api": "Answer HTTP requests.",
    "worker": "Run the jobs that wait in the queue.",
    "mcp": "Serve tools for agents by the Model Context Protocol.",
    "key create": "Make a key and print it; it cannot be shown again.",
    "key list": "List keys without their secrets.",
    "key revoke": "Refuse a key from now on.",
    "key open": "Let whoever is on this machine call without a key; all keys must be revoked.",
    "backup": (
        "Copy all graphs, labels, jobs, predictions and keys into DIR, while everything runs."
    ),
    "restore": "Bring a backup into an empty PEEWIT_HOME and an empty database, of either kind.",
    "doctor": (
        "Look at machine, database and files, also while everything runs; exit 1 for a fault."
    ),
    "version": "Show versions.",
    "graph": "Make a graph, show it, change its settings.",
    "labels": "Put labels of nodes, list them.",
    "jobs": "List, show, await and cancel jobs.",
    "source": "What the ingest daemon reads.",
    "labelstudio": "Label with Label Studio: send tasks out, take labels in.",
    "key": "Keys of the HTTP API.",
}
